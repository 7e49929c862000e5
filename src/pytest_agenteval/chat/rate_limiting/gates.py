"""All gates of one process, and what brings them their shares: a ledger of its own, or one shared by many."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from msgspec.structs import replace

from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.rate_limiting.exchange import Limits, Share, ShareStore, Standing
from pytest_agenteval.chat.rate_limiting.gate import Gate
from pytest_agenteval.chat.rate_limiting.stores import Ledger, read_standings
from pytest_agenteval.processes.locked_state import LockedState
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import from_builtins

THREAD_NAME = "agenteval-rates"
GAP_S = 0.01
NEWS_S = 0.25
"""Seconds after which others hear of news that changes nothing for them at once."""
WANTED_S = 0.02
BEAT_S = 2.0
IDLE_S = 1.0
"""Seconds after which a process that asks nothing any more gives its places back."""
POLLS_S = (0.02, 0.04, 0.08, 0.16, 0.25)
"""Seconds between looks for a place that another process may give back: fewer as it takes longer."""
RETRY_S = 1.0
CLOSING_S = 1.0


class Keeper:
    """A thread with a loop, on which shares are fetched and moments are waited for; begun at first use."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def soon(self, call: Callable[[], object]) -> None:
        """Have something called on the thread's loop; nothing where that has been closed."""
        loop = self._running_loop()
        if loop is not None:
            loop.call_soon_threadsafe(call)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Have something called there in so many seconds."""
        self.soon(lambda: asyncio.get_running_loop().call_later(seconds, call))

    def close(self) -> None:
        """End the thread; what was to be called is forgotten."""
        with self._starting:
            self._closed = True
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(CLOSING_S)
                self._loop = self._thread = None

    def _running_loop(self) -> asyncio.AbstractEventLoop | None:
        with self._starting:
            if self._loop is None and not self._closed:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=THREAD_NAME, daemon=True
                )
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        loop.close()


class Gates:
    """The gates of this process, one for each model: ``store`` has the shares, or this process its own.

    ``most`` is how many requests to one model it would have under way at once. ``ledger`` is its own.
    """

    def __init__(self, store: ShareStore | None = None, most: int = 64) -> None:
        self._store, self._most = store, most
        self.ledger, self._locks = Ledger(), threading.RLock()
        self._keeper = Keeper()
        self.process = f"{os.getpid()}.{os.urandom(3).hex()}"
        self._gates: dict[str, Gate] = {}
        self._lines: dict[Gate, _SharedLine] = {}
        self._due: dict[Gate, float] = {}

    def gate(self, model: str, name: str, limits: Limits, *, private: bool = False) -> Gate:
        """Give the gate before a model; ``private`` is one that no other process asks."""
        with self._locks:
            gate = self._gates.get(model)
            if gate is None:
                shared = self._store is not None and not private
                tell = self._tell_store if shared else self._tell_ledger
                gate = self._gates[model] = Gate(model, name, limits, self._most, self.process, tell)
                if shared and self._store is not None:
                    self._lines[gate] = _SharedLine(gate, self._store, self._keeper)
            return gate

    def standings(self) -> tuple[Standing, ...]:
        """Say how the models have fared that only this process asked."""
        with self._locks:
            return self.ledger.standings()

    def share(self, model: str) -> Share | None:
        """Give the share of a model as it was told last; None for one that this process has not asked."""
        gate = self._gates.get(model)
        return None if gate is None else gate.share

    async def close(self) -> None:
        """Give everything back, and end the thread."""
        self._keeper.close()
        if self._store is not None and any(gate.share.at_once for gate in self._lines):
            await self._store.leave(self.process)

    def _tell_store(self, gate: Gate, urgent: bool) -> None:
        self._lines[gate].wake(urgent=urgent)

    def _tell_ledger(self, gate: Gate, urgent: bool) -> None:
        with self._locks:  # reports of one gate come in their order
            share = self.ledger.exchange(gate.take_report())
            gate.take_share(share)
            if gate.waits_for_time:
                self._look_again(gate, share.again_s)

    def _look_again(self, gate: Gate, seconds: float) -> None:
        due = time.monotonic() + seconds
        if due >= self._due.get(gate, float("inf")):
            return
        self._due[gate] = due

        def look() -> None:
            with self._locks:
                if self._due.get(gate) == due:
                    del self._due[gate]
                    self._tell_ledger(gate, True)

        self._keeper.later(seconds, look)


class _SharedLine:
    """When one gate talks to the store: at once where somebody waits, else now and then, else never."""

    def __init__(self, gate: Gate, store: ShareStore, keeper: Keeper) -> None:
        self._gate, self._store, self._keeper = gate, store, keeper
        self._timer: asyncio.TimerHandle | None = None
        self._is_planned = self._is_urgent = self._is_busy = False
        self._last, self._polls = 0.0, 0

    def wake(self, *, urgent: bool) -> None:
        """Hear that there is something to tell; from any thread."""
        if self._is_urgent or (self._is_planned and not urgent):
            return
        self._is_planned, self._is_urgent = True, urgent
        self._keeper.soon(self._plan)

    def _plan(self) -> None:
        if not self._is_busy:  # else it is looked at when that is over
            soon = WANTED_S if self._gate.share.others_wait else NEWS_S
            self._set_timer(0.0 if self._is_urgent else soon)

    def _set_timer(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = max(loop.time() + seconds, self._last + GAP_S)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._start)

    def _start(self) -> None:
        self._timer, self._is_busy = None, True
        task = asyncio.get_running_loop().create_task(self._exchange())
        task.add_done_callback(_look_at)

    async def _exchange(self) -> None:
        gate = self._gate
        self._is_planned = self._is_urgent = False
        leaving = not (gate.in_flight or gate.waiting or gate.has_news)
        report = gate.take_report(leaving=leaving)
        share = await self._share_of_store(report)
        self._last = asyncio.get_running_loop().time()
        begun = gate.in_flight
        gate.take_share(share)
        self._polls = 0 if gate.in_flight > begun else self._polls + 1
        self._is_busy = False
        seconds = self._next_s(share)
        if seconds is not None:
            self._set_timer(seconds)
        if self._is_planned:
            self._plan()

    async def _share_of_store(self, report: Any) -> Share:
        while True:
            try:
                return await self._store.exchange(report)
            except Exception:  # a full disk, an actor that is being restarted: nothing may begin meanwhile
                await asyncio.sleep(RETRY_S)

    def _next_s(self, share: Share) -> float | None:
        """Give the seconds until the next exchange, if nothing else happens; None for never."""
        gate = self._gate
        if gate.waiting:
            poll_s = POLLS_S[min(self._polls, len(POLLS_S) - 1)]
            return share.again_s if gate.waits_for_time else min(share.again_s, poll_s)
        if gate.in_flight:
            return WANTED_S if share.others_wait and share.at_once > gate.in_flight else BEAT_S
        return IDLE_S if share.at_once else None


def _look_at(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


def gate_of(gates: Gates, model: Model, limits: Mapping[str, Mapping[str, float]]) -> Gate:
    """Give the gate before a model, with the limits of its name, or else those of the empty one."""
    own = from_builtins(Limits, limits.get(model.name) or limits.get("") or {})
    provider = provider_of(model.id)
    if provider is not None:  # on this machine: nobody there puts requests off
        own = replace(own, at_start=sys.maxsize)
    return gates.gate(key_of(model), model.name, own, private=provider == "hf")


def key_of(model: Model) -> str:
    """Name what limits belong to: a model, where it is asked, and with whose key."""
    return " ".join((model.id, str(model.params.get("api_base", "")), model.api_key_env)).rstrip()


_GATES: WeakValueDictionary[str, Gates] = WeakValueDictionary()


def gates_at(place: str, make: Callable[[], Gates]) -> Gates:
    """Give the gates of this process that belong to a run, made by whoever asks first."""
    gates = _GATES.get(place)
    if gates is None:
        gates = _GATES[place] = make()
    return gates


def standings_at(place: str) -> tuple[Standing, ...]:
    """Say how the models of a run have fared: as this process knows it, else as its file has it."""
    gates = _GATES.get(place)
    own = gates.standings() if gates is not None else ()
    if not Path(place).is_file():
        return own
    file = LockedState(Path(place))
    try:
        return own + read_standings(file)
    finally:
        file.close()

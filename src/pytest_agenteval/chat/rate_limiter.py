"""Lets the requests of one process to each model through, as many as the process has a share for."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from msgspec.structs import replace

from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.rate_shares import (
    LimiterReport,
    LocalShares,
    ModelFailure,
    ModelStanding,
    RateLimits,
    RateShare,
    RefusedRequests,
    ShareStore,
    read_standings,
)
from pytest_agenteval.processes.shared_state import LockedState
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.text.errors import ProviderDown

REPLY_TOKENS = 256
"""Tokens that a reply is taken to have before any has come."""


class QueuedRequest:
    """A request that waits or is under way.

    ``sent`` are the tokens that it sends, ``tokens`` those that it will take, as far as anybody can tell.
    """

    __slots__ = ("began", "future", "sent", "tokens")

    def __init__(self, sent: int, tokens: int) -> None:
        self.sent, self.tokens = sent, tokens
        self.began = 0.0
        self.future: asyncio.Future[None] | None = None


class RateLimiter:
    """Lets requests to one model through in turn, as many as the process has a share for.

    May be used on the loops of several threads. ``tell`` is called, with whether that is urgent, when there
    is something to report: it takes the report and brings a share, at once or later.
    """

    def __init__(
        self,
        model: str,
        name: str,
        limits: RateLimits,
        most: int,
        process: str,
        tell: Callable[[RateLimiter, bool], None],
    ) -> None:
        self.model, self.name, self.limits = model, name, limits
        self._most, self._process, self._tell = most, process, tell
        self._lock = threading.Lock()
        self._line: deque[QueuedRequest] = deque()
        self._share, self._starts, self._tokens = RateShare(), 0, 0
        self._is_telling = False
        self.in_flight = 0
        self._reply_tokens = float(REPLY_TOKENS)
        self._clear_news()

    def _clear_news(self) -> None:
        self._started = self._replies = 0
        self._refused: Counter[str] = Counter()
        self._refused_wait_s = self._refused_began = 0.0
        self._refusal: ModelFailure | None = None
        self._failure: ModelFailure | None = None
        self._dropped = False

    @property
    def share(self) -> RateShare:
        """What the process may do, as it was told last."""
        return self._share

    @property
    def replied(self) -> int:
        """How many replies the model has given, to anybody, as far as this process knows."""
        return self._share.replied + self._replies

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._line)

    @property
    def waits_for_time(self) -> bool:
        """Whether what the first in line waits for comes with time, and not when another request ends."""
        share, has_place = self._share, self.in_flight < self._share.at_once
        return bool(self._line) and (has_place or share.is_in_trouble)

    @property
    def has_news(self) -> bool:
        """Whether anything has happened that nobody has been told."""
        return bool(self._started or self._replies or self._refusal or self._failure or self._dropped)

    async def enter(self, sent: int = 0, most: int | None = None, *, first: bool = False) -> QueuedRequest:
        """Wait for a turn, ``first`` of all or behind the others; raises ProviderDown where there is none.

        ``sent`` are the tokens of the request, ``most`` those that its reply may have.
        """
        reply = self._reply_tokens if most is None else min(self._reply_tokens, most)
        turn = QueuedRequest(sent, max(1, round(sent + reply)))
        if self._share.down is not None:
            raise ProviderDown(self._share.down.message)
        with self._lock:
            if (first or not self._line) and self._may_begin(turn):
                self._begin(turn)
                return turn
            turn.future = asyncio.get_running_loop().create_future()
            self._line.insert(0 if first else len(self._line), turn)
        self._tell(self, True)
        if turn.began:
            return turn
        try:
            await turn.future
        except BaseException:
            self._give_up(turn)
            raise
        return turn

    def reply(self, turn: QueuedRequest, tokens: int | None = None) -> None:
        """Note that a request was answered, and what it took, where that is known."""
        with self._lock:
            self._end(turn, tokens)
            self._replies += 1
        self._tell(self, False)

    def refuse(self, turn: QueuedRequest, failure: ModelFailure, status: str, wait_s: float) -> None:
        """Note that a request was put off: nothing more begins here until it is said for how long."""
        with self._lock:
            self._end(turn, 0)
            self._refused[status] += 1
            self._refusal = failure
            self._refused_wait_s = max(wait_s, self._refused_wait_s)
            self._refused_began = max(turn.began, self._refused_began)
        self._tell(self, True)

    def drop(self, turn: QueuedRequest) -> None:
        """Note that a request came to no end that says anything of the model."""
        with self._lock:
            self._end(turn, None)
            self._dropped = True
        self._tell(self, False)

    def fail(self, turn: QueuedRequest, failure: ModelFailure) -> None:
        """Note that the model cannot be had: it was tried often enough, or there is no hope."""
        with self._lock:
            self._end(turn, None)
            self._failure = failure
        self._tell(self, True)

    def take_report(self, *, leaving: bool = False) -> LimiterReport:
        """Give what has happened since the last report; nothing begins until the share for it is there."""
        now = time.monotonic()
        with self._lock:
            refusals = None
            if self._refusal is not None:
                ago_s = now - self._refused_began
                refusals = RefusedRequests(self._refusal, dict(self._refused), self._refused_wait_s, ago_s)
            report = LimiterReport(
                process=self._process,
                model=self.model,
                name=self.name,
                limits=self.limits,
                most=0 if leaving else self._most,
                in_flight=self.in_flight,
                waiting=len(self._line),
                tokens=sum([turn.tokens for turn in self._line]) if self.limits.tokens_per_minute else 0,
                started=self._started,
                replied=self._replies,
                unused_starts=self._starts,
                unused_tokens=self._tokens,
                refusals=refusals,
                failure=self._failure,
                dropped=self._dropped,
            )
            self._starts = self._tokens = 0
            self._is_telling = True
            self._clear_news()
        return report

    def take_share(self, share: RateShare) -> None:
        """Obey a share: begin what may begin, and tell all who wait where the model is gone."""
        with self._lock:
            self._share, self._is_telling = share, False
            self._starts, self._tokens = share.starts or 0, share.tokens or 0
            ready = self._failed() if share.down is not None else self._ready()
        for turn in ready:
            self._wake(turn, share.down)

    def _may_begin(self, turn: QueuedRequest) -> bool:
        share = self._share
        if self._is_telling or self._refusal or self._failure or self.in_flight >= share.at_once:
            return False
        if share.starts is not None and self._starts < 1:
            return False
        # One that needs more than there ever is begins all the same, with all that there is.
        return share.tokens is None or self._tokens >= min(turn.tokens, max(1, share.tokens))

    def _begin(self, turn: QueuedRequest) -> None:
        turn.began = time.monotonic()
        self.in_flight += 1
        self._started += 1
        if self._share.starts is not None:
            self._starts -= 1
        if self._share.tokens is not None:
            self._tokens -= turn.tokens

    def _end(self, turn: QueuedRequest, tokens: int | None) -> None:
        self.in_flight -= 1
        if tokens is None or not self.limits.tokens_per_minute:
            return
        self._tokens += turn.tokens - tokens
        if tokens:
            self._reply_tokens += 0.1 * (max(0, tokens - turn.sent) - self._reply_tokens)

    def _ready(self) -> Sequence[QueuedRequest]:
        ready = []
        while self._line and self._may_begin(self._line[0]):
            turn = self._line.popleft()
            self._begin(turn)
            ready.append(turn)
        return ready

    def _failed(self) -> Sequence[QueuedRequest]:
        failed = tuple(self._line)
        self._line.clear()
        return failed

    def _wake(self, turn: QueuedRequest, down: ModelFailure | None) -> None:
        future = turn.future
        if future is None:
            return
        try:
            future.get_loop().call_soon_threadsafe(_settle_future, future, down)
        except RuntimeError:  # its loop is closed: nobody waits there any more
            if down is None:
                self.drop(turn)

    def _give_up(self, turn: QueuedRequest) -> None:
        """Wait no longer; a turn that was given meanwhile goes to the next."""
        with self._lock:
            if turn in self._line:
                self._line.remove(turn)
                return
        if turn.began:
            self.drop(turn)


def _settle_future(future: asyncio.Future[None], down: ModelFailure | None) -> None:
    if future.done():
        return
    if down is None:
        future.set_result(None)
    else:
        with suppress(asyncio.InvalidStateError):
            future.set_exception(ProviderDown(down.message))


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


class TimerThread:
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
                    target=_run_loop, args=(self._loop,), name=THREAD_NAME, daemon=True
                )
                self._thread.start()
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        loop.close()


class RateLimiters:
    """The gates of this process, one for each model: ``store`` has the shares, or this process its own.

    ``most`` is how many requests to one model it would have under way at once. ``ledger`` is its own.
    """

    def __init__(self, store: ShareStore | None = None, most: int = 64) -> None:
        self._store, self._most = store, most
        self.ledger, self._locks = LocalShares(), threading.RLock()
        self._keeper = TimerThread()
        self.process = f"{os.getpid()}.{os.urandom(3).hex()}"
        self._gates: dict[str, RateLimiter] = {}
        self._lines: dict[RateLimiter, _StoreExchange] = {}
        self._due: dict[RateLimiter, float] = {}

    def gate(self, model: str, name: str, limits: RateLimits, *, private: bool = False) -> RateLimiter:
        """Give the gate before a model; ``private`` is one that no other process asks."""
        with self._locks:
            gate = self._gates.get(model)
            if gate is None:
                shared = self._store is not None and not private
                tell = self._tell_store if shared else self._tell_ledger
                gate = self._gates[model] = RateLimiter(model, name, limits, self._most, self.process, tell)
                if shared and self._store is not None:
                    self._lines[gate] = _StoreExchange(gate, self._store, self._keeper)
            return gate

    def standings(self) -> tuple[ModelStanding, ...]:
        """Say how the models have fared that only this process asked."""
        with self._locks:
            return self.ledger.standings()

    def share(self, model: str) -> RateShare | None:
        """Give the share of a model as it was told last; None for one that this process has not asked."""
        gate = self._gates.get(model)
        return None if gate is None else gate.share

    async def close(self) -> None:
        """Give everything back, and end the thread."""
        self._keeper.close()
        if self._store is not None and any(gate.share.at_once for gate in self._lines):
            await self._store.leave(self.process)

    def _tell_store(self, gate: RateLimiter, urgent: bool) -> None:
        self._lines[gate].wake(urgent=urgent)

    def _tell_ledger(self, gate: RateLimiter, urgent: bool) -> None:
        with self._locks:  # reports of one gate come in their order
            share = self.ledger.exchange(gate.take_report())
            gate.take_share(share)
            if gate.waits_for_time:
                self._look_again(gate, share.again_s)

    def _look_again(self, gate: RateLimiter, seconds: float) -> None:
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


class _StoreExchange:
    """When one gate talks to the store: at once where somebody waits, else now and then, else never."""

    def __init__(self, gate: RateLimiter, store: ShareStore, keeper: TimerThread) -> None:
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
        task.add_done_callback(_retrieve_exception)

    async def _exchange(self) -> None:
        gate = self._gate
        self._is_planned = self._is_urgent = False
        leaving = not (gate.in_flight or gate.waiting or gate.has_news)
        report = gate.take_report(leaving=leaving)
        share = await self._share_of_store(report)
        self._last = asyncio.get_running_loop().time()
        started = gate.in_flight
        gate.take_share(share)
        self._polls = 0 if gate.in_flight > started else self._polls + 1
        self._is_busy = False
        seconds = self._next_s(share)
        if seconds is not None:
            self._set_timer(seconds)
        if self._is_planned:
            self._plan()

    async def _share_of_store(self, report: Any) -> RateShare:
        while True:
            try:
                return await self._store.exchange(report)
            except Exception:  # a full disk, an actor that is being restarted: nothing may begin meanwhile
                await asyncio.sleep(RETRY_S)

    def _next_s(self, share: RateShare) -> float | None:
        """Give the seconds until the next exchange, if nothing else happens; None for never."""
        gate = self._gate
        if gate.waiting:
            poll_s = POLLS_S[min(self._polls, len(POLLS_S) - 1)]
            return share.again_s if gate.waits_for_time else min(share.again_s, poll_s)
        if gate.in_flight:
            return WANTED_S if share.others_wait and share.at_once > gate.in_flight else BEAT_S
        return IDLE_S if share.at_once else None


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


def limiter_of(gates: RateLimiters, model: Model, limits: Mapping[str, Mapping[str, float]]) -> RateLimiter:
    """Give the gate before a model, with the limits of its name, or else those of the empty one."""
    own = from_builtins(RateLimits, limits.get(model.name) or limits.get("") or {})
    provider = provider_of(model.id)
    if provider is not None:  # on this machine: nobody there puts requests off
        own = replace(own, at_start=sys.maxsize)
    return gates.gate(limiter_key(model), model.name, own, private=provider == "hf")


def limiter_key(model: Model) -> str:
    """Name what limits belong to: a model, where it is asked, and with whose key."""
    return " ".join((model.id, str(model.params.get("api_base", "")), model.api_key_env)).rstrip()


_LIMITERS: WeakValueDictionary[str, RateLimiters] = WeakValueDictionary()


def limiters_at(place: str, make: Callable[[], RateLimiters]) -> RateLimiters:
    """Give the gates of this process that belong to a run, made by whoever asks first."""
    gates = _LIMITERS.get(place)
    if gates is None:
        gates = _LIMITERS[place] = make()
    return gates


def standings_at(place: str) -> tuple[ModelStanding, ...]:
    """Say how the models of a run have fared: as this process knows it, else as its file has it."""
    gates = _LIMITERS.get(place)
    own = gates.standings() if gates is not None else ()
    if not Path(place).is_file():
        return own
    file = LockedState(Path(place))
    try:
        return own + read_standings(file)
    finally:
        file.close()

"""One actor as seen by the process that sends it work: what is under way there, and its results."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from itertools import count
from typing import Any, Protocol

from pytest_agenteval.chat.rate_shares import LocalShares
from pytest_agenteval.engine.cluster.actor import ActorQuestion, ActorSetup, ActorStarted, Arrival
from pytest_agenteval.engine.executor import ExecutorBroken, ExecutorReport, TrialLost

# Seconds that an actor may be silent before it is given up; it returns every five seconds at least.
SILENT_S = 60.0

# Seconds until an actor that did not answer is called once more.
AGAIN_S = 0.5
# Seconds that an actor has to close; one that computes without end is then killed.
CLOSING_S = 2.5


class ActorLost(Exception):
    """An actor is gone, with all that it was carrying out; the text says why, as far as Ray knows."""


class ActorSilent(Exception):
    """An actor does not answer at the moment, but may answer later."""


class Cluster(Protocol):
    """Where actors are called and ended."""

    async def call(self, actor: Any, method: str, *args: Any) -> Any:
        """Call a method of an actor and return its result; raises ActorLost and ActorSilent."""

    def kill(self, actor: Any) -> None:
        """End an actor at once, if it is still there."""


class RemoteActor:
    """Sends requests to one actor, those of one turn of the loop together, and returns their results.

    ``lost`` is called once, when the actor is gone or silent for too long: by then everything that waits for
    it has failed.
    """

    # Results are acknowledged with the next request, so that none is lost on a broken connection; requests
    # are numbered, so that none begins twice.
    _numbers = count(1)

    def __init__(
        self, cluster: Cluster, handle: Any, lost: Callable[[RemoteActor], None], shares: LocalShares
    ) -> None:
        self._cluster, self.handle, self._lost, self._shares = cluster, handle, lost, shares
        self._sharing: set[str] = set()
        self.number = next(self._numbers)
        self.waiting: dict[int, asyncio.Future[Arrival]] = {}
        self._outbox: list[tuple[int, bytes]] = []
        self._variables: dict[str, str] = {}
        self._sent_variables: dict[str, str] = {}
        self._listening: asyncio.Task[None] | None = None
        self._requests = count(1)
        # Stored here, as the loop itself holds only weak references to tasks.
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_gone = False

    async def start(self, setup: ActorSetup, project: Any) -> None:
        """Start it; raises ExecutorBroken if it does not come up."""
        try:
            started: ActorStarted = pickle.loads(
                await self._cluster.call(self.handle, "start", pickle.dumps(setup), project)
            )
        except (ActorLost, ActorSilent) as gone:
            raise ExecutorBroken(f"an actor ended while it came up: {gone}") from None
        if started.broken:
            raise ExecutorBroken(started.broken)
        here = ActorStarted()
        if started.package != here.package:
            raise ExecutorBroken(
                f"an actor has pytest-agenteval {started.package}: expected {here.package}, as it is here"
            )
        self._listening = asyncio.get_running_loop().create_task(self._listen())

    async def do(self, pickled: bytes, variables: Mapping[str, str]) -> Arrival:
        """Have a request carried out, with these variables; raises TrialLost if the actor is lost."""
        if self.is_gone:
            raise TrialLost("the actor that was to carry it out is gone")
        number = next(self._requests)
        loop = asyncio.get_running_loop()
        arriving: asyncio.Future[Arrival] = loop.create_future()
        self.waiting[number] = arriving
        if not self._outbox:
            loop.call_soon(self._flush)
        self._outbox.append((number, pickled))
        self._variables.update(variables.items() - self._sent_variables.items())
        try:
            return await arriving
        finally:
            self.waiting.pop(number, None)

    async def close(self) -> tuple[ExecutorReport, dict[str, bytes]] | None:
        """Close and kill it; returns its report and last recordings, or None if it could not close."""
        if self._listening is not None:
            self._listening.cancel()
        if self.is_gone:
            return None
        self.is_gone = True
        try:
            closing = self._cluster.call(self.handle, "close")
            last: tuple[ExecutorReport, dict[str, bytes]] = pickle.loads(
                await asyncio.wait_for(closing, CLOSING_S)
            )
            return last
        except (TimeoutError, ActorLost, ActorSilent):
            return None
        finally:
            self._cluster.kill(self.handle)

    def give_up(self, reason: str) -> None:
        """Treat it as gone: all that waits for it fails, and it is killed in case it is still there."""
        if self.is_gone:
            return
        self.is_gone = True
        if self._listening is not None:
            self._listening.cancel()
        self._cluster.kill(self.handle)
        for arriving in self.waiting.values():
            if not arriving.done():
                arriving.set_exception(TrialLost(f"the actor that carried it out is gone: {reason}"))
        self._in_background(self.leave())
        self._lost(self)

    def _flush(self) -> None:
        requests, self._outbox = self._outbox, []
        variables, self._variables = self._variables, {}
        self._sent_variables.update(variables)
        self._in_background(
            self._answer_of(lambda: self._cluster.call(self.handle, "begin", requests, variables))
        )

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, question: ActorQuestion) -> None:
        self._sharing.add(question.report.process)
        pickled = pickle.dumps(self._shares.exchange(question.report))
        await self._answer_of(lambda: self._cluster.call(self.handle, "answer", question.number, pickled))

    async def leave(self) -> None:
        """Return its shares of models: it sends no more requests."""
        for process in self._sharing:
            self._shares.leave(process)

    async def _listen(self) -> None:
        received = 0
        while not self.is_gone:
            arrived = await self._answer_of(lambda: self._cluster.call(self.handle, "fetch", received))  # noqa: B023
            if arrived is None:
                return
            received, arrivals = arrived
            for arrival in arrivals:
                if isinstance(arrival, ActorQuestion):
                    self._in_background(self._answer(arrival))
                    continue
                arriving = self.waiting.get(arrival.number)
                if arriving is not None and not arriving.done():
                    arriving.set_result(arrival)

    async def _answer_of(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Call until there is an answer; None if the actor is gone or silent too long, and is given up."""
        until = time.monotonic() + SILENT_S
        while not self.is_gone:
            try:
                return await asyncio.wait_for(ask(), max(0.1, until - time.monotonic()))
            except TimeoutError:
                self.give_up(f"nothing was heard of it for {SILENT_S:g} s")
            except ActorSilent as silent:
                if time.monotonic() > until:
                    self.give_up(str(silent))
                await asyncio.sleep(AGAIN_S)
            except ActorLost as gone:
                self.give_up(str(gone))
        return None

"""The time of agents that run side by side: what stops them and is not charged, and who goes first."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType

from pytest_agenteval.processes.threads import DaemonThread
from pytest_agenteval.records.limits import Budget, StoppedTime
from pytest_agenteval.records.recorder import Recorder

# Seconds between two looks. A loop that looks later than that by as much again was busy with something else.
LOOK_S = 0.05
# The least seconds between two looks at threads: with hundreds of them one takes a third of a millisecond.
LEAST_LOOK_S = 0.02
IMPORTING = "<frozen importlib._bootstrap>"


class TimeWatch:
    """Counts the time in which agents are stopped, by looking at loop and threads while any agent acts.

    Agents on the loop of all trials are stopped while that is busy: by the setup of other trials, a huge
    reply, thousands of calls that begin together. Agents in threads are stopped while modules are imported
    there.
    """

    def __init__(self) -> None:
        self._on_loop = StoppedTime(self.catch_up)
        self._in_threads: set[Budget] = set()
        self._looked = self._due = 0.0
        self._acting = 0
        self._thread = 0

    @contextmanager
    def agent_running(self, budget: Budget, *, on_loop: bool) -> Iterator[None]:
        """Start a trial's clock, and count its agent among those that act."""
        budget.time.begin(self._on_loop if on_loop else StoppedTime(self.catch_up))
        if not on_loop:
            self._in_threads.add(budget)
        self._acting += 1
        if not self._thread:
            self._thread = threading.get_ident()
            self._look_later()
        try:
            yield
        finally:
            self._in_threads.discard(budget)
            self._acting -= 1

    def hold_up(self, seconds: float) -> None:
        """Charge no agent on the loop for what held it up just now, such as the setup of another trial."""
        self._on_loop.seconds += seconds
        self._due += seconds

    def catch_up(self) -> None:
        """Count what has stopped agents since the last look; does nothing outside the loop's thread."""
        if threading.get_ident() != self._thread:
            return
        now = time.monotonic()
        if now - self._due > LOOK_S:
            self._on_loop.seconds += now - self._due
            self._due = now
        passed = now - self._looked
        if self._in_threads and passed >= LEAST_LOOK_S:
            self._looked, places = now, _importing_places()
            for budget in self._in_threads:
                if not places.isdisjoint(budget.time.stopped.places):
                    budget.time.stopped.seconds += min(passed, budget.at)

    def _look_later(self) -> None:
        self._due = time.monotonic() + LOOK_S
        asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self.catch_up()
        if self._acting:
            self._look_later()
        else:
            self._thread = 0


def _importing_places() -> set[int]:
    """Return the threads that import something, or wait for an import, and the loops that they work for."""
    idents = {ident for ident, frame in sys._current_frames().items() if _is_importing(frame)}
    if not idents:
        return idents
    # A thread of ``asyncio.to_thread`` works for the agent whose loop started it.
    workers = [
        each for each in threading.enumerate() if isinstance(each, DaemonThread) and each.ident in idents
    ]
    return idents | {id(worker.loop) for worker in workers}


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


# The most seconds that others wait for the first trial: its first reply may take a while, or never come.
LONGEST_FIRST_USE_S = 5.0

_TURN_CHECK_S = 0.02


class FirstUse:
    """The first trial of one agent in this process, for which others wait before their clocks start.

    Libraries import and build more when they are first used, and not always so that several threads may.
    """

    def __init__(self) -> None:
        self._first: Recorder | None = None
        self._until = 0.0
        self._is_over = False

    @asynccontextmanager
    async def turn(self, recorder: Recorder) -> AsyncIterator[None]:
        """Let the first trial go on at once, others once it has read a reply; ``recorder`` is the trial's."""
        if self._first is None:
            self._first, self._until = recorder, time.monotonic() + LONGEST_FIRST_USE_S
            try:
                yield
            finally:
                self._is_over = True
            return
        # Until the first has ended, has had its time, or sends its second request: then it has read a reply.
        while not (self._is_over or self._first.turn > 1 or time.monotonic() > self._until):
            await asyncio.sleep(_TURN_CHECK_S)
        self._is_over = True
        yield

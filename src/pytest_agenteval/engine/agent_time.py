"""Time that no agent pays for: first use of libraries, imports, and a loop that was busy with others."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import FrameType

from pytest_agenteval.processes.threads import DaemonThread
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.recorder import Recorder

LONGEST_FIRST_USE_S = 5.0
"""So long others wait for the first, at most: its first reply may take a while, or never come."""

_TURN_CHECK_S = 0.02


class FirstUse:
    """The first trial of one agent in this process, for which others wait before their clocks start."""

    def __init__(self) -> None:
        self._first: Recorder | None = None
        self._until = 0.0
        self._is_over = False

    @asynccontextmanager
    async def turn(self, recorder: Recorder) -> AsyncIterator[None]:
        """Go on at once where nobody did before, else once the first has; ``recorder`` is the trial's."""
        if self._first is None:
            self._first, self._until = recorder, time.monotonic() + LONGEST_FIRST_USE_S
            try:
                yield
            finally:
                self._is_over = True
            return
        while not self._has_passed:
            await asyncio.sleep(_TURN_CHECK_S)
        yield

    @property
    def _has_passed(self) -> bool:
        """Whether the first has ended, has had its time, or asks again: then it has read a reply."""
        asks_again = self._first is not None and self._first.turn > 1
        self._is_over = self._is_over or asks_again or time.monotonic() > self._until
        return self._is_over


IMPORT_CHECK_S = 0.02
"""Threads are looked at no more often: with hundreds of them a look takes a third of a millisecond."""

IMPORTING = "<frozen importlib._bootstrap>"


class ImportTime:
    """Looks at the threads of agents now and then, and forgives the time in which they import."""

    def __init__(self) -> None:
        self.budgets: set[Budget] = set()
        self._importing: set[Budget] = set()
        self._looked = 0.0

    def look(self) -> None:
        """Forgive the time since the last look where an agent imports now, or did then."""
        now = time.monotonic()
        passed, before = now - self._looked, self._importing
        if passed < IMPORT_CHECK_S or not self.budgets:
            return
        self._looked, self._importing = now, self._importing_now()
        for budget in (before | self._importing) & self.budgets:
            budget.forgive_frozen(min(passed, budget.at))

    def _importing_now(self) -> set[Budget]:
        frames = sys._current_frames()
        idents = {ident for ident, frame in frames.items() if _is_importing(frame)}
        if not idents:
            return set()
        # What asyncio.to_thread runs is the work of whose loop has started the thread.
        threads = [each for each in threading.enumerate() if each.ident in idents]
        loops = {id(each.loop) for each in threads if isinstance(each, DaemonThread)}
        return {
            budget
            for budget in self.budgets
            if not idents.isdisjoint(budget.threads) or not loops.isdisjoint(budget.loops)
        }


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            return True
        frame = frame.f_back
    return False


STALL_CHECK_S = 0.05
LEAST_STALL_S = 0.05
"""A loop that runs a callback later than this was busy with something else."""


class StallWatch:
    """Looks at the loop now and then while somebody acts on it, and tells how long it stood still.

    A huge reply that is read, thousands of calls that begin together: for as long as that takes nothing else
    goes on. Who is about to look at a clock looks here first: ``catch_up``. ``look`` is called each time.
    """

    def __init__(
        self, is_needed: Callable[[], bool], tell: Callable[[float], None], look: Callable[[], None]
    ) -> None:
        self._is_needed, self._tell, self._look_elsewhere = is_needed, tell, look
        self._due = self._excused = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def watch(self) -> None:
        """Begin to look, on the running loop; ends by itself when nobody acts on it any more."""
        if self._loop is None:
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
            self._look_later(self._loop)

    def excuse(self, seconds: float) -> None:
        """Leave out a time for which the loop is busy, and which is forgiven already."""
        self._excused += seconds

    def catch_up(self) -> None:
        """Tell of a standstill that has not been seen yet; on another thread than the loop's do nothing."""
        if self._loop is None or threading.get_ident() != self._thread:
            return
        self._look_elsewhere()
        now = self._loop.time()
        late_s = now - self._due - self._excused
        if late_s > LEAST_STALL_S:
            self._due, self._excused = now, 0.0
            self._tell(late_s)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due, self._excused = loop.time() + STALL_CHECK_S, 0.0
        loop.call_at(self._due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self.catch_up()
        if self._is_needed():
            self._look_later(loop)
        else:
            self._loop = None

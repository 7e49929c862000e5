"""How long agents in threads import modules: setup, whenever it happens, and no second of any trial's limit.

Python's import statement has no hook that leaves tracebacks and warnings as they are, so the stacks of the
threads are looked at. A thread that waits for another's import is importing, too.
"""

from __future__ import annotations

import sys
import threading
import time
from types import FrameType

from pytest_agenteval.processes.threads import DaemonThread
from pytest_agenteval.records.limits import Budget

LOOK_S = 0.02
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
        if passed < LOOK_S or not self.budgets:
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

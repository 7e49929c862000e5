"""What the pool carries out, one of them for each trial, and who is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from pytest_agenteval.engine.admission import NotRun
from pytest_agenteval.engine.executors.executor import TrialRequest
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import Trial


class Slot:
    """One trial on its way: waiting, running, or done; or ``not_run``, which says why it never begins.

    ``workspace`` is a tree that stands already. ``read_stored`` gives the trial that is to be graded again,
    ``read_finished`` one that has ended before and is only to be written down, or None where it cannot be
    read any more: each is read when its turn comes, for a run of them would not fit into memory. ``lost`` is
    how often it was begun and never heard of again.
    """

    __slots__ = ("lost", "not_run", "plan", "read_finished", "read_stored", "task", "trial", "workspace")

    def __init__(
        self,
        plan: Plan,
        workspace: Path | None = None,
        read_stored: Callable[[], Trial] | None = None,
        read_finished: Callable[[], Trial | None] | None = None,
    ) -> None:
        self.plan = plan
        self.workspace = workspace
        self.read_stored = read_stored
        self.read_finished = read_finished
        self.trial: Trial | None = None
        self.not_run: NotRun | None = None
        self.task: asyncio.Task[None] | None = None
        self.lost = 0

    def request(self) -> TrialRequest:
        """Give what the executor is asked for; raises what keeps a stored trial from being read."""
        stored = self.read_stored() if self.read_stored else None
        return TrialRequest(self.plan, str(self.workspace or ""), stored, self.lost)

    def end(self, trial: Trial) -> None:
        """Take the trial, as it is given out."""
        self.trial = trial


class TrialObserver(Protocol):
    """Who is told, on the pool's thread, before anyone else learns of it."""

    def started(self, plans: Sequence[Plan]) -> None:
        """These trials begin now."""
        ...

    def finished(self, trials: Sequence[Trial]) -> Sequence[Trial]:
        """These trials have ended; gives them as they are to be given out."""
        ...

    def not_run(self, plan: Plan, why: NotRun) -> None:
        """This trial does not begin in this run."""
        ...

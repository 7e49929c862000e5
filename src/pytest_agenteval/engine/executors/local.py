"""Carrying out plans in this process, on the loop that asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_agenteval.engine.regrading import regrade
from pytest_agenteval.engine.trial import run_trial
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.errors import Problem, ProblemsFound
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import Trial


class LocalExecutor:
    """Runs each plan as a coroutine of the calling loop.

    ``unsaved`` says, once it is closed, which recordings could not be written.
    """

    def __init__(self, context: WorkerContext) -> None:
        self.context = context
        self.unsaved: tuple[Problem, ...] = ()

    async def ready(self) -> None:
        """Nothing has to come up first."""

    async def run(
        self, plan: Plan, given: Path | None = None, stored: Callable[[], Trial] | None = None
    ) -> Trial:
        """Carry out one plan; ``given`` is a workspace that stands already.

        Where a ``stored`` trial can be read, nothing is carried out: it is graded again.
        """
        if stored is not None:
            return await regrade(plan, self.context, stored())
        return await run_trial(plan, self.context, given=given)

    async def close(self) -> None:
        """Write what was recorded and let go of what is held."""
        try:
            await self.context.close()
        except ProblemsFound as found:
            self.unsaved = found.problems

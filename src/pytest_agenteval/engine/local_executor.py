"""Carrying out plans in this process, on the loop of the caller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.engine.digests import AgentDigests
from pytest_agenteval.engine.executor import (
    CalibrationRequest,
    CalibrationResult,
    ExecutorContext,
    ExecutorReport,
    TrialRequest,
)
from pytest_agenteval.engine.trial import agent_digests, regrade, run_trial
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import Problem, ProblemsFound, UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.chat.rate_shares import ShareStore


class LocalExecutor:
    """Runs each plan as a coroutine of the calling loop.

    ``store`` shares the limits of models if neither this process alone nor a file of the run does. With
    ``run``, agents can be made and looked at without ``ready``, for an executor that cannot do that.
    """

    def __init__(
        self,
        registry: Registry,
        store: ShareStore | None = None,
        run: ExecutorContext = ExecutorContext(),  # noqa: B008  # a frozen value
    ) -> None:
        self._registry, self._store = registry, store
        self._context = WorkerContext(registry, run)

    @staticmethod
    def check_argument(argument: str) -> None:
        """Raise UsageMistake for any argument."""
        if argument:
            raise UsageMistake(
                f"--agent-executor=local:{argument}: expected local without a number; "
                f"--agent-concurrency={argument} sets how many trials run at once"
            )

    async def ready(self, context: ExecutorContext) -> int:
        """Take note of the run; as many trials run side by side as it allows."""
        self._context = WorkerContext(self._registry, context, store=self._store)
        return context.concurrency

    async def run(self, request: TrialRequest) -> Trial:
        if request.stored is not None:
            return await regrade(request.plan, self._context, request.stored)
        workspace = Path(request.workspace) if request.workspace else None
        return await run_trial(request.plan, self._context, workspace=workspace)

    async def agent_side(self, plan: Plan) -> AgentDigests:
        return await agent_digests(plan, self._context)

    async def calibrate(self, request: CalibrationRequest) -> CalibrationResult:
        """Ask judges about labelled examples, as many side by side as trials may run."""
        from pytest_agenteval.engine.calibration_run import calibrate

        return await calibrate(request, self._context, self._context.run.concurrency)

    async def close(self) -> ExecutorReport:
        """Write what was recorded, release everything, and find recordings that nobody used."""
        unsaved: tuple[Problem, ...] = ()
        try:
            await self._context.close()
        except ProblemsFound as broken:
            unsaved = broken.problems
        unused = self._context.unused_recordings() if self._context.run.reports_unused else {}
        return ExecutorReport(unsaved, unused)

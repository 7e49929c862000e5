"""Grading a trial: plain graders in a thread, async ones on the loop; and the ending that its grades make."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from pytest_agenteval.compare.scoring.aggregates import trial_score
from pytest_agenteval.engine import grader_run
from pytest_agenteval.engine.grader_run import GraderRun, JudgesFor
from pytest_agenteval.engine.thread_batcher import BatchedThreads
from pytest_agenteval.graders.grader import Grader, Judge
from pytest_agenteval.records.evidence import Evidence, Grade
from pytest_agenteval.records.plan import Kind, PlannedGrader
from pytest_agenteval.records.record import Record
from pytest_agenteval.records.trial import Ending, ErrorDetails
from pytest_agenteval.records.truncation import truncated_text
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.canonical import canonical

MOST_KEPT = 1024
"""Graders, and plans of graders, that are remembered."""

UNGRADED = "ungraded"
"""The cause of a trial with nothing decided, or with a required grade undecided."""


class GradingResult(Record, frozen=True):
    """Every grade of a trial, in the task's order, and what broke it: a grader, or nothing is decided."""

    grades: tuple[Grade, ...]
    error: ErrorDetails | None = None

    @property
    def score(self) -> float | None:
        """The weighted mean of the decided grades; None where none is decided, or the trial is errored."""
        return None if self.error else trial_score((grade.score, grade.weight) for grade in self.grades)

    def ending(self, kind: Kind) -> Ending:
        """How the trial ended, in a suite of this kind."""
        return "errored" if self.error else graded_ending(self.grades, kind)


def no_judges(label: str) -> Sequence[Judge]:
    """Give no judges."""
    return ()


class GradingService:
    """Where graders are made and where trials are graded."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._graders: dict[str, Grader] = {}
        self._by_plan: dict[int, tuple[PlannedGrader, Grader]] = {}
        self._threads = BatchedThreads()

    def grader(self, planned: PlannedGrader) -> Grader:
        """Give the grader that a task asks for, made once for each configuration."""
        # By the plan itself first: writing out a configuration takes longer than most graders.
        cached = self._by_plan.get(id(planned))
        if cached is not None and cached[0] is planned:
            return cached[1]
        if len(self._by_plan) > MOST_KEPT or len(self._graders) > MOST_KEPT:  # of tasks long gone
            self._by_plan.clear()
            self._graders.clear()
        key = planned.name + canonical(planned.config) if planned.config else planned.name
        grader = self._graders.get(key)
        if grader is None:
            grader = self._graders[key] = self._registry.grader_factory(planned.name)(**planned.config)
        self._by_plan[id(planned)] = planned, grader
        return grader

    async def grade(
        self, planned: Sequence[PlannedGrader], evidence: Evidence, judges: JudgesFor = no_judges
    ) -> GradingResult:
        """Give every grade, in the task's order, and what broke, if a grader did.

        ``judges`` gives those that a grader may ask, by its label.
        """
        runs = [GraderRun(grader, self.grader, judges, evidence) for grader in planned]
        # Quick ones first, and here: changing threads would cost more than all that they do.
        _start_all([run for run in runs if run.is_quick])
        on_loop = [run for run in runs if run.is_async]
        in_thread = [run for run in runs if not (run.is_quick or run.is_async)]
        if not on_loop:
            await self._run_in_thread(in_thread)
        elif not in_thread and len(on_loop) == 1:
            await on_loop[0].run_here()  # no task for the one judge that most trials have
        else:
            await asyncio.gather(self._run_in_thread(in_thread), *(run.run_here() for run in on_loop))
        return _grading_result(runs)

    async def _run_in_thread(self, runs: Sequence[GraderRun]) -> None:
        if runs:
            try:
                async with asyncio.timeout(
                    grader_run.GRADING_S
                ):  # unlike wait_for, it needs no task of its own
                    await self._threads.run(partial(_start_all, runs))
            except TimeoutError:
                for run in runs:
                    run.give_up()
        for run in runs:
            await run.finish()

    def close(self) -> None:
        """Let the threads go; a grader that never returns does not hold up the end."""
        self._threads.close()


def _start_all(runs: Sequence[GraderRun]) -> None:
    for run in runs:
        run.start()


def _grading_result(runs: Sequence[GraderRun]) -> GradingResult:
    """Put all grades together; the first grader that broke names the cause, each has its line."""
    # Each grade first: what was returned may break only when it is looked at.
    grades = tuple([run.grade() for run in runs])
    errors = [error for run in runs if (error := run.error) is not None]
    if not errors:
        return GradingResult(grades, ungraded_error(grades))
    messages = "\n".join(error.message for error in errors)
    traces = "\n".join(error.traceback for error in errors if error.traceback)
    return GradingResult(
        grades, ErrorDetails(errors[0].cause, truncated_text(messages), truncated_text(traces))
    )


def ungraded_error(grades: Sequence[Grade]) -> ErrorDetails | None:
    """Say why grades do not make an ending, where they do not."""
    needed = [grade for grade in grades if grade.required and grade.score is None]
    if needed:
        undecided = "; ".join(
            f"{grade.grader} is required and undecided: {grade.rationale}" for grade in needed
        )
        return ErrorDetails(UNGRADED, undecided)
    if all(grade.score is None for grade in grades):
        reasons = "; ".join(f"{grade.grader}: {grade.rationale}" for grade in grades)
        return ErrorDetails(UNGRADED, f"nothing could be graded: {reasons}" if reasons else "no grader")
    return None


def graded_ending(grades: Sequence[Grade], kind: Kind) -> Ending:
    """Give passed where every decided grade reached its threshold, else missed, outside capability failed."""
    if all(grade.passed is not False for grade in grades):
        return "passed"
    return "missed" if kind == "capability" else "failed"

"""Grading: plain graders in a worker thread, async ones on the loop, and no grader spoils another's grade."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.canonical import canonical
from pytest_agenteval.engine.exceptions import exception_line, is_own_cancellation, user_frames_first
from pytest_agenteval.engine.grade_conversion import InvalidGrade, as_grade, threshold_of
from pytest_agenteval.engine.thread_batcher import BatchedThreads
from pytest_agenteval.errors import AgentEvalError, LimitReached, ProblemsFound, TrialBroken
from pytest_agenteval.graders.grader import Grader, Judge, JudgeUnavailable
from pytest_agenteval.records.bounds import bounded_grade, bounded_text
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import CRASH, Grade
from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import ErrorDetails
from pytest_agenteval.registry import Registry

MOST_KEPT = 1024

GRADING_S = 300.0
"""So many seconds the plain graders of one trial may take together, and one that waits."""


class GraderHangs(TrialBroken):
    """A grader did not come back."""

    cause = "grader_hangs"


PACKAGE = __name__.partition(".")[0]

UNDECIDED = (JudgeUnavailable, LimitReached)
"""What our judges raise where they cannot be asked any more: the grade is undecided, and nothing broke."""


class GradingResult(FrozenValue, frozen=True):
    """Every grade of a trial, in the task's order, and what broke it, if a grader did."""

    grades: tuple[Grade, ...]
    error: ErrorDetails | None = None


JudgesFor: TypeAlias = Callable[[str], Sequence[Judge]]


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
        known = self._by_plan.get(id(planned))
        if known is not None and known[0] is planned:
            return known[1]
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
        asked = [_Asked(each, self.grader, judges, evidence) for each in planned]
        _ask_all([each for each in asked if each.is_quick])
        here = [each for each in asked if each.is_async]
        plain = [each for each in asked if not (each.is_quick or each.is_async)]
        if not here:
            await self._ask_in_thread(plain)
        elif not plain and len(here) == 1:
            await here[0].ask_here()
        else:
            await asyncio.gather(self._ask_in_thread(plain), *(each.ask_here() for each in here))
        return _all_grades([(each.grade(), each.error) for each in asked])

    async def _ask_in_thread(self, plain: Sequence[_Asked]) -> None:
        if plain:
            try:
                async with asyncio.timeout(GRADING_S):  # unlike wait_for, it needs no task of its own
                    await self._threads.run(partial(_ask_all, plain))
            except TimeoutError:
                for each in plain:
                    each.give_up()
        for each in plain:
            await each.finish()

    def close(self) -> None:
        """Let the threads go; a grader that never returns does not hold up the end."""
        self._threads.close()


def _ask_all(asked: Sequence[_Asked]) -> None:
    for each in asked:
        each.ask()


class _Asked:
    """One grader of one trial, and what came of it: a grade, something to wait for, or what it raised."""

    __slots__ = (
        "answered",
        "evidence",
        "grader",
        "is_async",
        "is_quick",
        "judges",
        "planned",
        "raised",
        "returned",
    )

    def __init__(
        self,
        planned: PlannedGrader,
        made: Callable[[PlannedGrader], Grader],
        judges: JudgesFor,
        evidence: Evidence,
    ) -> None:
        self.planned, self.judges, self.evidence = planned, judges, evidence
        self.returned: Any = None
        self.answered = False
        self.raised: BaseException | None = None
        self.is_async, self.is_quick = False, True
        try:
            self.grader = made(planned)
            self.is_async = inspect.iscoroutinefunction(self.grader.grade)
            # It says of itself that it only computes, for microseconds.
            self.is_quick = not self.is_async and bool(getattr(self.grader, "quick", False))
        except BaseException as raised:  # even SystemExit: somebody's grader must not end the run
            self.raised = raised

    async def ask_here(self) -> None:
        """Let an async grader look at the evidence."""
        self.ask()
        await self.finish()

    def ask(self) -> None:
        """Let the grader look at the evidence."""
        if self.raised is not None:
            return
        try:
            grader = self.grader
            with_judges = getattr(grader, "with_judges", None)
            if with_judges is not None:
                grader = with_judges(self.judges(self.planned.label))
            self.returned = grader.grade(self.evidence if _is_ours(grader) else self.evidence.own_copy())
            self.answered = True
        except BaseException as raised:
            self.raised = raised

    def give_up(self) -> None:
        """Wait no longer for a grader that has not come back; its thread is left to itself."""
        if not self.answered and self.raised is None:
            self.raised = GraderHangs(f"no grade within {GRADING_S:g} s")

    async def finish(self) -> None:
        """Wait for a grade that is still to come; those who ask judges have limits of their own."""
        if self.raised is not None or not inspect.isawaitable(self.returned):
            return
        limit = None if hasattr(self.grader, "with_judges") else GRADING_S
        try:
            async with asyncio.timeout(limit) as deadline:
                self.returned = await self.returned
        except BaseException as raised:
            if is_own_cancellation(raised):
                raise
            late = isinstance(raised, TimeoutError) and deadline.expired()
            self.raised = GraderHangs(f"no grade within {GRADING_S:g} s") if late else raised

    def grade(self) -> Grade:
        """Give the grade, with the task's label, threshold and weight."""
        planned, own = self.planned, 1.0
        grade: Grade | None = None
        if self.raised is None:
            try:
                given = as_grade(planned.label, self.returned)
                grade, own = bounded_grade(given), threshold_of(self.grader)
            except Exception as raised:  # a part of it that raises when it is looked at
                self.raised = raised
        return replace(
            grade or bounded_grade(self._undecided_grade()),
            grader=planned.label,
            threshold=own if planned.threshold is None else planned.threshold,
            weight=planned.weight,
            required=planned.required,
        )

    @property
    def error(self) -> ErrorDetails | None:
        """What breaks the trial, where this grader raised something that is no word on the trial."""
        raised = self.raised
        if raised is None or isinstance(raised, UNDECIDED):
            return None
        if isinstance(raised, TrialBroken | ProblemsFound):
            return ErrorDetails(raised.cause, str(raised))
        label = self.planned.label
        if isinstance(raised, InvalidGrade):
            return ErrorDetails(CRASH, f"{label} {raised}{_place(self.grader)}")
        trace = "" if isinstance(raised, AgentEvalError) else user_frames_first(raised)
        return ErrorDetails(CRASH, f"{label} raised {exception_line(raised)}", trace)

    def _undecided_grade(self) -> Grade:
        """Give the grade of one that gave none."""
        found, label = self.error, self.planned.label
        if found is None:
            why = "no_judge" if isinstance(self.raised, JudgeUnavailable) else "limit"
            return Grade(label, None, str(self.raised), undecided=why)
        said = found.message.removeprefix(f"{label} ") if found.cause == CRASH else found.message
        details = {"traceback": found.traceback} if found.traceback else {}
        return Grade(label, None, said, details=details, undecided=found.cause)


def _is_ours(grader: Any) -> bool:
    """Whether a grader's code came with the package: it only looks, and leaves notes for its like."""
    module = getattr(grader.grade, "__module__", None) or ""  # of the function, where one was registered
    return bool(module.partition(".")[0] == PACKAGE)


def _all_grades(found: Sequence[tuple[Grade, ErrorDetails | None]]) -> GradingResult:
    """Put all grades together; the first grader that broke names the cause, each has its line."""
    error = [each for _, each in found if each is not None]
    grades = tuple(grade for grade, _ in found)
    if not error:
        return GradingResult(grades)
    traces = "\n".join(each.traceback for each in error if each.traceback)
    said = "\n".join(each.message for each in error)
    return GradingResult(grades, ErrorDetails(error[0].cause, bounded_text(said), bounded_text(traces)))


def _place(grader: Any) -> str:
    """Say where a grader's code stands, where that can be had: nothing was raised that would show it."""
    code = getattr(getattr(grader, "grade", None), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""

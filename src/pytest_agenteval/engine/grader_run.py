"""One grader of one trial: it is asked on the loop or in a thread, and whatever it raises is its own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.engine.exceptions import exception_line, is_own_cancellation, user_frames_first
from pytest_agenteval.engine.grade_conversion import InvalidGrade, as_grade, threshold_of
from pytest_agenteval.graders.grader import (
    Grader,
    Judge,
    JudgedGrader,
    JudgeUnavailable,
    asks_judges,
    is_quick,
)
from pytest_agenteval.records.evidence import CRASH, Evidence, Grade
from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.trial import ErrorDetails
from pytest_agenteval.records.truncation import truncated_grade
from pytest_agenteval.text.errors import AgentEvalError, LimitReached, ProblemsFound, TrialBroken

GRADING_S = 300.0
"""So many seconds the plain graders of one trial may take together, and one that waits."""

PACKAGE = __name__.partition(".")[0]

UNDECIDED = (JudgeUnavailable, LimitReached)
"""What our judges raise where they cannot be asked any more: the grade is undecided, and nothing broke."""

JudgesFor: TypeAlias = Callable[[str], Sequence[Judge]]
"""Gives the judges that a grader may ask, by the grader's label."""


class GraderHangs(TrialBroken):
    """A grader did not come back."""

    cause = "grader_hangs"


class GraderRun:
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
        grader_for: Callable[[PlannedGrader], Grader],
        judges: JudgesFor,
        evidence: Evidence,
    ) -> None:
        self.planned, self.judges, self.evidence = planned, judges, evidence
        self.returned: Any = None
        self.answered = False
        self.raised: BaseException | None = None
        self.is_async, self.is_quick = False, True
        try:
            self.grader = grader_for(planned)
            self.is_async = inspect.iscoroutinefunction(self.grader.grade)
            self.is_quick = not self.is_async and is_quick(self.grader)
        except BaseException as raised:  # even SystemExit: somebody's grader must not end the run
            self.raised = raised

    async def run_here(self) -> None:
        """Let an async grader look at the evidence."""
        self.start()
        await self.finish()

    def start(self) -> None:
        """Let the grader look at the evidence."""
        if self.raised is not None:
            return
        try:
            grader = self.grader
            if asks_judges(grader):
                grader = _with_judges(grader, self.judges(self.planned.label))
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
        limit = None if asks_judges(self.grader) else GRADING_S
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
                returned = as_grade(planned.label, self.returned)
                grade, own = truncated_grade(returned), threshold_of(self.grader)
            except Exception as raised:  # a part of it that raises when it is looked at
                self.raised = raised
        return replace(
            grade or truncated_grade(self._grade_without_score()),
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
            return ErrorDetails(CRASH, f"{label} {raised}{_location(self.grader)}")
        trace = "" if isinstance(raised, AgentEvalError) else user_frames_first(raised)
        return ErrorDetails(CRASH, f"{label} raised {exception_line(raised)}", trace)

    def _grade_without_score(self) -> Grade:
        """Give the grade of one that gave none."""
        error, label = self.error, self.planned.label
        if error is None:
            reason = "no_judge" if isinstance(self.raised, JudgeUnavailable) else "limit"
            return Grade(label, None, str(self.raised), undecided=reason)
        why = error.message.removeprefix(f"{label} ") if error.cause == CRASH else error.message
        details = {"traceback": error.traceback} if error.traceback else {}
        return Grade(label, None, why, details=details, undecided=error.cause)


def _with_judges(grader: JudgedGrader, judges: Sequence[Judge]) -> Grader:
    judged = grader.with_judges(judges)
    if hasattr(judged, "grade"):
        return judged
    raise InvalidGrade(f"gave {judged!r} as the grader with its judges: expected one with grade(evidence)")


def _is_ours(grader: Any) -> bool:
    """Whether a grader's code came with the package: it only looks, and leaves notes for its like."""
    module = getattr(grader.grade, "__module__", None) or ""  # of the function, where one was registered
    return bool(module.partition(".")[0] == PACKAGE)


def _location(grader: Any) -> str:
    """Say where a grader's code stands, where that can be had: nothing was raised that would show it."""
    code = getattr(getattr(grader, "grade", None), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""

"""Grading a trial: graders run on the loop or in threads, and their grades decide the trial's ending."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.compare.scoring.aggregates import trial_score
from pytest_agenteval.engine.tracebacks import exception_line, is_own_cancellation, user_frames_first
from pytest_agenteval.graders.grader import Grader, Judge, JudgeUnavailable, asks_judges, trait_of
from pytest_agenteval.processes.threads import DaemonThreads
from pytest_agenteval.records.evidence import CRASH, ROUNDING, UNDECIDED, Check, Evidence, Grade, Outcome
from pytest_agenteval.records.plan import Kind, PlannedGrader, PlannedTask
from pytest_agenteval.records.record import Record
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.records.trial import Ending, ErrorDetails
from pytest_agenteval.records.truncation import truncated_grade, truncated_text
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.text.errors import CAUSES, AgentEvalError, LimitReached, ProblemsFound, TrialBroken
from pytest_agenteval.text.json_values import canonical_json


def has_acted(task: PlannedTask, transcript: Transcript, outcome: Outcome) -> bool | None:
    """Whether the agent changed a file that counts, or called a tool that counts and got a result.

    None if the task has no label, or its suite does not define what acting is.
    """
    # Calls that failed do not count, nor do those that stood in the conversation before the agent.
    files, tools = task.acting_files, task.acting_tools
    if not task.label or not (files or tools):
        return None
    if any(call.tool in tools and call.error is None and call.by == "agent" for call in transcript.calls):
        return True
    if not files:
        return False
    from pytest_agenteval.tasks.globs import matches

    diff = outcome.diff
    paths = (*diff.created, *diff.modified, *diff.deleted)
    return any(matches(glob, path) for path in paths for glob in files)


_EXPECTED = "expected a Grade, a bool or a number from 0 to 1"
REASONS = UNDECIDED.keys() | CAUSES.keys()

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 120


class InvalidGrade(AgentEvalError):
    """What a grader returned, or one of its attributes, is not a valid grade."""


def as_grade(label: str, returned: Any) -> Grade:
    """Return what a grader returned as a grade: a bool is 1 or 0, a number its score.

    Raises InvalidGrade for anything else, and for a grade with an invalid part.
    """
    if isinstance(returned, Grade):
        grade = returned
        if grade.score is not None and not (type(grade.score) is float and 0 < grade.score <= 1):
            grade = replace(grade, score=_checked_score(grade.score, "returned a Grade with the score"))
        wrong = ""
        if not isinstance(grade.rationale, str):
            wrong = f"the rationale {_short_repr(grade.rationale)}: expected a text"
        elif not isinstance(grade.details, dict | Mapping):
            wrong = f"the details {_short_repr(grade.details)}: expected a mapping"
        elif grade.undecided and (grade.score is not None or grade.undecided not in REASONS):
            wrong = (
                f"the score {_short_repr(grade.score)} that is undecided for the reason "
                f"{_short_repr(grade.undecided)}: expected a score, or none and one of {', '.join(UNDECIDED)}"
            )
        elif grade.unclamped is not None and not (
            isinstance(grade.unclamped, Real) and abs(grade.unclamped) <= sys.float_info.max
        ):
            wrong = f"{_short_repr(grade.unclamped)} unclamped: expected a number"
        elif not isinstance(grade.checks, tuple) or not all(map(_is_plain, grade.checks)):
            checks: Any = grade.checks
            if isinstance(checks, list | tuple) and all(isinstance(check, Check) for check in checks):
                return replace(grade, checks=tuple(map(_plain, checks)))
            wrong = f"the checks {_short_repr(checks)}: expected a list of Check"
        if wrong:
            raise InvalidGrade(f"returned a Grade with {wrong}")
        return grade
    if isinstance(returned, Real):
        return Grade(label, _checked_score(returned, "returned"), f"returned {_short_repr(returned)}")
    raise InvalidGrade(f"returned {_short_repr(returned)}: {_EXPECTED}")


def _threshold_of(grader: Any) -> float:
    """Return a grader's own threshold, else 1; raises InvalidGrade if it is not a number from 0 to 1."""
    own = trait_of(grader, "threshold")
    if isinstance(own, Real) and bool(0 <= own <= 1):  # type: ignore[operator]  # Real has no order
        return float(own)
    raise InvalidGrade(f"has the threshold {_short_repr(own)}: expected a number from 0 to 1")


def _short_repr(value: object) -> str:
    """Return the value in one short line, with its type unless that is obvious."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    text = " ".join(_short.repr(value).split())
    return f"{text} ({type(value).__name__})"


def _checked_score(value: Any, where: str) -> float:
    # Rounding may carry a score past an end, as in twenty times 0.05: then it is that end.
    if isinstance(value, Real) and -ROUNDING <= value <= 1 + ROUNDING:  # type: ignore[operator]  # as above
        return min(max(float(value), 0.0), 1.0) + 0.0  # -0.0 becomes 0.0
    raise InvalidGrade(f"{where} {_short_repr(value)}: {_EXPECTED}")


def _is_plain(check: Any) -> bool:
    if not isinstance(check, Check) or type(check.passed) is not bool:
        return False
    return type(check.claim) is type(check.expected) is type(check.found) is str


def _plain(check: Check) -> Check:
    # The sides of a check become texts: graders compare numbers, but reports show words.
    sides = (check.claim, check.expected, check.found)
    claim, expected, found = (side if isinstance(side, str) else _short.repr(side) for side in sides)
    return Check(claim, bool(check.passed), expected, found)


# Seconds that the plain graders of one trial may take together, and one that awaits something.
GRADING_S = 300.0

PACKAGE = __name__.partition(".")[0]

# What our judges raise if they are missing or have used up their limit: the grade is undecided, and nothing
# broke.
_NOT_ASKABLE = (JudgeUnavailable, LimitReached)

# Returns the judges that a grader may use, by the grader's label.
JudgesFor: TypeAlias = Callable[[str], Sequence[Judge]]


class GraderHangs(TrialBroken):
    """A grader did not return in time."""

    cause = "grader_hangs"


class GraderRun:
    """One grader of one trial, and what it returned or raised."""

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
            self.is_quick = not self.is_async and bool(trait_of(self.grader, "quick"))
        # Even SystemExit: a user's grader must not end the run.
        except BaseException as raised:
            self.raised = raised

    async def run_here(self) -> None:
        self.start()
        await self.finish()

    def start(self) -> None:
        """Let the grader grade the evidence, or begin to, if it is async."""
        if self.raised is not None:
            return
        try:
            grader = self.grader
            if asks_judges(grader):
                judged = grader.with_judges(self.judges(self.planned.label))
                if not hasattr(judged, "grade"):
                    expected = "expected one with grade(evidence)"
                    raise InvalidGrade(f"gave {judged!r} as the grader with its judges: {expected}")
                grader = judged
            # A built-in grader only reads the evidence, and stores what it worked out there for other
            # graders; any other may change its copy. For a function, the module is that of the function.
            module = getattr(grader.grade, "__module__", None) or ""
            is_built_in = module.partition(".")[0] == PACKAGE
            self.returned = grader.grade(self.evidence if is_built_in else self.evidence.own_copy())
            self.answered = True
        except BaseException as raised:
            self.raised = raised

    def give_up(self) -> None:
        """Stop waiting for a grader that has not returned; its thread is left to itself."""
        if not self.answered and self.raised is None:
            self.raised = GraderHangs(f"no grade within {GRADING_S:g} s")

    async def finish(self) -> None:
        """Wait for a grade that is still to come; graders that ask judges have limits of their own."""
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
        """Return the grade, with the task's label, threshold and weight."""
        planned, own = self.planned, 1.0
        grade: Grade | None = None
        if self.raised is None:
            try:
                returned = as_grade(planned.label, self.returned)
                grade, own = truncated_grade(returned), _threshold_of(self.grader)
            # A part of the grade may raise when it is looked at.
            except Exception as raised:
                self.raised = raised
        if grade is None:
            error, label = self.error, planned.label
            if error is None:
                reason = "no_judge" if isinstance(self.raised, JudgeUnavailable) else "limit"
                without_score = Grade(label, None, str(self.raised), undecided=reason)
            else:
                why = error.message.removeprefix(f"{label} ") if error.cause == CRASH else error.message
                details = {"traceback": error.traceback} if error.traceback else {}
                without_score = Grade(label, None, why, details=details, undecided=error.cause)
            grade = truncated_grade(without_score)
        return replace(
            grade,
            grader=planned.label,
            threshold=own if planned.threshold is None else planned.threshold,
            weight=planned.weight,
            required=planned.required,
        )

    @property
    def error(self) -> ErrorDetails | None:
        """What breaks the trial, if the grader broke; a judge that is missing or used up breaks nothing."""
        raised = self.raised
        if raised is None or isinstance(raised, _NOT_ASKABLE):
            return None
        if isinstance(raised, TrialBroken | ProblemsFound):
            return ErrorDetails(raised.cause, str(raised))
        label = self.planned.label
        if isinstance(raised, InvalidGrade):
            # No traceback shows where the grader's code is.
            code = getattr(getattr(self.grader, "grade", None), "__code__", None)
            place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
            return ErrorDetails(CRASH, f"{label} {raised}{place}")
        trace = "" if isinstance(raised, AgentEvalError) else user_frames_first(raised)
        return ErrorDetails(CRASH, f"{label} raised {exception_line(raised)}", trace)


# How many graders, and plans of graders, are remembered.
MOST_GRADERS = 1024
# The cause of a trial without any decided grade, or with a required one that is undecided.
UNGRADED = "ungraded"


class GradingResult(Record, frozen=True):
    """Every grade of a trial, in the task's order.

    ``error`` is what broke the trial: a grader, or that nothing is decided.
    """

    grades: tuple[Grade, ...]
    error: ErrorDetails | None = None

    @property
    def score(self) -> float | None:
        """The weighted mean of the decided grades; None if none is decided, or the trial is errored."""
        return None if self.error else trial_score((grade.score, grade.weight) for grade in self.grades)

    def ending(self, kind: Kind) -> Ending:
        return "errored" if self.error else graded_ending(self.grades, kind)


def no_judges(label: str) -> Sequence[Judge]:
    return ()


class GradingService:
    """Makes graders and grades trials."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._graders: dict[str, Grader] = {}
        self._by_plan: dict[int, tuple[PlannedGrader, Grader]] = {}
        self._threads: DaemonThreads | None = None

    def grader(self, planned: PlannedGrader) -> Grader:
        """Return the grader that a task names, made once for each configuration."""
        # By the plan object first: encoding a configuration takes longer than most graders do.
        cached = self._by_plan.get(id(planned))
        if cached is not None and cached[0] is planned:
            return cached[1]
        # Most of them belong to tasks that have ended.
        if len(self._by_plan) > MOST_GRADERS or len(self._graders) > MOST_GRADERS:
            self._by_plan.clear()
            self._graders.clear()
        key = planned.name + canonical_json(planned.config) if planned.config else planned.name
        grader = self._graders.get(key)
        if grader is None:
            grader = self._graders[key] = self._registry.grader_factory(planned.name)(**planned.config)
        self._by_plan[id(planned)] = planned, grader
        return grader

    async def grade(
        self, planned: Sequence[PlannedGrader], evidence: Evidence, judges: JudgesFor = no_judges
    ) -> GradingResult:
        """Return every grade, in the task's order, and what broke, if a grader did.

        ``judges`` returns those that a grader may use, by its label.
        """
        runs = [GraderRun(grader, self.grader, judges, evidence) for grader in planned]
        # Quick ones first, and in this thread: changing threads would cost more than all that they do.
        for run in runs:
            if run.is_quick:
                run.start()
        if slow := [run for run in runs if not run.is_quick]:
            await self._run_slow(slow)
        # Each grade before any error: what a grader returned may break only when it is looked at.
        grades = tuple([run.grade() for run in runs])
        errors = [error for run in runs if (error := run.error) is not None]
        if not errors:
            return GradingResult(grades, _ungraded_error(grades))
        messages = "\n".join(error.message for error in errors)
        traces = "\n".join(error.traceback for error in errors if error.traceback)
        return GradingResult(
            grades, ErrorDetails(errors[0].cause, truncated_text(messages), truncated_text(traces))
        )

    async def _run_slow(self, runs: Sequence[GraderRun]) -> None:
        on_loop = [run for run in runs if run.is_async]
        in_thread = [run for run in runs if not run.is_async]
        if not on_loop:
            await self._run_in_thread(in_thread)
        elif not in_thread and len(on_loop) == 1:
            # Most trials have one judge, for which no task is needed.
            await on_loop[0].run_here()
        else:
            await asyncio.gather(self._run_in_thread(in_thread), *(run.run_here() for run in on_loop))

    async def _run_in_thread(self, runs: Sequence[GraderRun]) -> None:
        if runs:
            try:
                # Unlike ``wait_for``, it needs no task of its own.
                async with asyncio.timeout(GRADING_S):
                    loop = asyncio.get_running_loop()
                    self._threads = self._threads or DaemonThreads(loop)
                    in_context = contextvars.copy_context().run
                    await loop.run_in_executor(self._threads, in_context, _start_all, runs)
            except TimeoutError:
                for run in runs:
                    run.give_up()
        for run in runs:
            await run.finish()

    def close(self) -> None:
        """End the threads; a grader that never returns does not hold up the end."""
        if self._threads is not None:
            self._threads.shutdown()


def _start_all(runs: Sequence[GraderRun]) -> None:
    for run in runs:
        run.start()


def _ungraded_error(grades: Sequence[Grade]) -> ErrorDetails | None:
    """Return why the grades decide no ending; None if they do."""
    needed = [grade for grade in grades if grade.required and grade.score is None]
    if needed:
        undecided = "; ".join(
            f"{grade.grader} is required and undecided: {grade.rationale}" for grade in needed
        )
        return ErrorDetails(UNGRADED, undecided)
    if all(grade.score is None for grade in grades):
        reasons = "; ".join(f"{grade.grader}: {grade.rationale}" for grade in grades)
        return ErrorDetails(UNGRADED, f"no grader could decide: {reasons}" if reasons else "no grader")
    return None


def graded_ending(grades: Sequence[Grade], kind: Kind) -> Ending:
    """Return "passed" if every decided grade reached its threshold, else "missed" or "failed"."""
    if all(grade.passed is not False for grade in grades):
        return "passed"
    return "missed" if kind == "capability" else "failed"

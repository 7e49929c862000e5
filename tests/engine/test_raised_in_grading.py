"""What a grade keeps of an exception that its grader raised, and what is no mistake of a grader's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pytest_agenteval.engine.trial import run_trial
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.graders.grader import JudgeUnavailable
from pytest_agenteval.records.evidence import Evidence, Grade
from pytest_agenteval.records.plan import PlannedGrader
from tests.engine.executing import execute, plan, registry


class Raising:
    """A grader that raises what it was made with."""

    def __init__(self, raised: BaseException) -> None:
        self.raised = raised

    def grade(self, evidence: Evidence) -> Grade:
        """Raise."""
        raise self.raised


@pytest.mark.parametrize(
    ("raised", "traced"), [(ValueError("oh"), True), (JudgeUnavailable("asked something else"), False)]
)
def test_our_own_errors_need_no_traceback(raised: Exception, traced: bool) -> None:
    """Somebody's mistake is shown with its lines; what is foreseen is one sentence, a thousand times over."""
    (trial,) = execute(registry(odd=lambda: Raising(raised)), plan("t", PlannedGrader("odd", "odd")))
    (grade,) = trial.grades
    assert str(raised) in grade.rationale
    assert ("traceback" in grade.details) is traced
    assert bool(trial.traceback) is traced


class Unreadable(dict[str, object]):
    """Details that raise when somebody looks."""

    def values(self) -> Any:
        """Refuse."""
        raise RuntimeError("not for you")


class Unspeakable(Exception):
    """What cannot say what it is."""

    def __str__(self) -> str:
        raise SystemExit(3)


class Detailed:
    """A grader whose grade cannot be looked at."""

    def grade(self, evidence: Evidence) -> Grade:
        """Give it."""
        return Grade("odd", 1.0, "fine", details=Unreadable(a=1))


class Content:
    """A grader with nothing to say against it."""

    def grade(self, evidence: Evidence) -> Grade:
        """Praise."""
        return Grade("fine", 1.0, "fine")


@pytest.mark.parametrize("grader", [Detailed, lambda: Raising(Unspeakable())], ids=["details", "text"])
def test_what_cannot_be_looked_at_breaks_its_grader_only(grader: Callable[[], object]) -> None:
    """The trial is errored by the grader's name, and what the others found is kept."""
    graders = registry(odd=grader, fine=Content)
    planned = plan("t", PlannedGrader("odd", "odd"), PlannedGrader("fine", "fine"))

    (trial,) = execute(graders, planned)

    assert (trial.ending, trial.cause) == ("errored", "grader_crash")
    assert [grade.score for grade in trial.grades] == [None, 1.0]


def test_a_trial_that_is_called_off_while_it_is_graded_ends_there() -> None:
    """The run has ended: no grade is made of it, and the trial is not taken for an errored one."""
    graded = asyncio.Event()

    class Waiting:
        async def grade(self, evidence: Evidence) -> Grade:
            graded.set()
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def called_off() -> None:
        trial = asyncio.create_task(
            run_trial(plan("t", PlannedGrader("odd", "odd")), WorkerContext(registry(odd=Waiting)))
        )
        await graded.wait()
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial

    asyncio.run(called_off())

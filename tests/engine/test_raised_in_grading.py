"""What a grade keeps of an exception that its grader raised, and what is no mistake of a grader's."""

from __future__ import annotations

import asyncio

import pytest

from pytest_agenteval.engine.equipment import Equipment
from pytest_agenteval.engine.regrading import NotAsked
from pytest_agenteval.engine.trial import run_trial
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import PlannedGrader
from tests.engine.carried_out import carried_out, plan, registry


class Raising:
    """A grader that raises what it was made with."""

    def __init__(self, raised: Exception) -> None:
        self.raised = raised

    def grade(self, evidence: Evidence) -> Grade:
        """Raise."""
        raise self.raised


@pytest.mark.parametrize(
    ("raised", "traced"), [(ValueError("oh"), True), (NotAsked("asked something else"), False)]
)
def test_our_own_errors_need_no_traceback(raised: Exception, traced: bool) -> None:
    """Somebody's mistake is shown with its lines; what is foreseen is one sentence, a thousand times over."""
    (trial,) = carried_out(registry(odd=lambda: Raising(raised)), plan("t", PlannedGrader("odd", "odd")))
    (grade,) = trial.grades
    assert str(raised) in grade.rationale
    assert ("traceback" in grade.details) is traced
    assert bool(trial.traceback) is traced


def test_a_trial_that_is_called_off_while_it_is_graded_ends_there() -> None:
    """The run has ended: no grade is made of it, and the trial is not taken for an errored one."""
    graded = asyncio.Event()

    class Waiting:
        async def grade(self, evidence: Evidence) -> Grade:
            graded.set()
            return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def called_off() -> None:
        trial = asyncio.create_task(
            run_trial(plan("t", PlannedGrader("odd", "odd")), Equipment(registry(odd=Waiting)))
        )
        await graded.wait()
        trial.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trial

    asyncio.run(called_off())

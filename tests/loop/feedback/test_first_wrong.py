"""Which decision of a trial went wrong first, beside the reference solution."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.loop.feedback.trial_sections import first_wrong
from pytest_agenteval.records.evidence import Answer, Check, FileText, Outcome, Tree
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.trial_view import trial_view
from pytest_agenteval.tasks.task_spec import GraderSpec, PlannedCall, ReferenceSolution, Task, Turn
from tests.loop.feedback.feedback_runs import call, failed_grade, failing
from tests.loop.feedback.test_trials import FOUND, LOOK, SAID, reference


def changed(path: str, line: str) -> dict[str, Any]:
    """Give what a trial leaves whose file has one line more."""
    before, after = (Tree({path: FileText(text, len(text), text)}) for text in ("old", f"old\n{line}"))
    return {"outcome": Outcome(Answer(""), before, after)}


READ, EDIT = call("look", path="/Notes/wrong.md"), call("write", 2, path="/Notes/wrong.md", new="a line")
PASTED = (failed_grade("g", Check("no paste", False, "no long run", "9 words in one run")),)


def solution(*calls: tuple[str, dict[str, Any]]) -> Task:
    """Give a task whose reference solution makes these calls."""
    turns = (Turn(calls=tuple(PlannedCall(tool=tool, args=args) for tool, args in calls)),)
    graders = (GraderSpec(name="g"),)
    return Task(id="a", input={}, graders=graders, reference_solution=ReferenceSolution(turns=turns))


GOLD_EDIT = ("write", {"path": "/Notes/wrong.md", "new": "in own words"})
WITH_REFERENCE: dict[str, tuple[Trial, Task, str, int | None, str]] = {
    "the call that changed the file, not the one that read it": (
        failing("a", calls=[READ, EDIT], grades=FOUND, **changed("PKM/Notes/wrong.md", "a line")),
        solution(("look", {"path": "/Areas/y.md"})),
        "check",
        2,
        "call 2, write(",
    ),
    "a call that the reference solution makes too is not wrong": (
        failing("a", calls=[EDIT], grades=FOUND),
        solution(("look", {"path": "/Areas/x.md"}), ("write", {"path": "/Areas/x.md"}), GOLD_EDIT),
        "check",
        None,
        "no call has the value that g expected (not met: filed well); the reference solution, one way of "
        'many, has write({"path":"/Areas/x.md"})',
    ),
    "without any call that is what is said": (
        failing("a", grades=FOUND),
        solution(("write", {"path": "/Areas/x.md"})),
        "reference",
        None,
        "no call was made; the reference solution",
    ),
    "what is changed comes before how the agent looks about": (
        failing("a", calls=[LOOK, EDIT], grades=PASTED),
        solution(("open", {"path": "/Notes/wrong.md"}), ("write", {"path": "/y.md"}), GOLD_EDIT),
        "reference",
        2,
        'many, has write({"path":"/Notes/wrong.md","new":"in own words"}) instead',
    ),
    "an argument that an earlier call gives may be anything": (
        failing("a", calls=[call("look", q="abc"), call("near", 2, x=127.5)], answer="It is wrong, sorry."),
        solution(("look", {"q": "abc"}), ("near", {"x": "$1.longitude"})),
        "check",
        None,
        SAID,
    ),
    "the order is nobody's matter while a call is missing": (
        failing("a", calls=[call("look", q="two")]),
        solution(("look", {"q": "one"}), ("look", {"q": "two"})),
        "reference",
        None,
        'the trial ended after call 1; the reference solution, one way of many, has look({"q":"one"}) too',
    ),
    "the order tells where nothing else does": (
        failing("a", calls=[call("look", q="two"), call("look", 2, q="one")]),
        solution(("look", {"q": "one"}), ("look", {"q": "two"})),
        "reference",
        1,
        'has look({"q":"one"}) first',
    ),
    "a list that a check found is known by its parts": (
        failing(
            "a",
            calls=[LOOK, call("write", 2, kinds=[{"is": "menu"}, {"is": "quiz"}])],
            grades=(failed_grade("g", Check("only a quiz", False, "quiz", "menu, quiz")),),
        ),
        reference("look"),
        "check",
        2,
        "not met: only a quiz; found menu, quiz",
    ),
    "a word of a long text that a check found blames no call": (
        failing(
            "a",
            calls=[call("look", q="August")],
            grades=(failed_grade("g", Check("it has 7", False, "a match of '7'", f"In August {'x' * 99}")),),
        ),
        solution(("look", {"q": "September"})),
        "reference",
        1,
        'call 1 is look({"q":"August"})',
    ),
}


@pytest.mark.parametrize("case", WITH_REFERENCE)
def test_the_decision_is_the_one_that_made_what_the_check_is_about(case: str) -> None:
    """Looking about is nobody's fault, nor is what the reference solution does too, in whichever order."""
    this, task, basis, number, words = WITH_REFERENCE[case]
    wrong = first_wrong(trial_view(this), None, task, {"write"})

    assert (wrong.basis, wrong.call) == (basis, number)
    assert words in wrong.text

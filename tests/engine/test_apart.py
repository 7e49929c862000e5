"""What an agent or a grader does to what it was given reaches nobody else."""

from __future__ import annotations

from typing import Any

from pytest_agenteval.records.evidence import Answer, Evidence
from pytest_agenteval.records.plan import PlannedGrader
from tests.engine.executing import execute, plan, registry

GRADERS = ("taking", "aside", "function")


class Taking:
    """A grader that takes what it looks at out of the evidence."""

    version = "1"

    def grade(self, evidence: Evidence) -> bool:
        """Pass where everything is still there."""
        state: Any = evidence.state
        given: Any = evidence.task_input["list"]
        return state.pop("card", None) is not None and state["deep"].pop() == 1 and given.pop() == "milk"


class TakingAside(Taking):
    """The same on the loop, and as one that only computes."""

    quick = True


def taking_function(evidence: Evidence) -> bool:
    """Do the same without a class."""
    return Taking().grade(evidence)


class Rewriting:
    """An agent that changes the input that it was given."""

    def run(self, task_input: Any, ctx: Any) -> Answer:
        """Answer with what stands in the input, and empty it."""
        text = ",".join(task_input["list"])
        task_input["list"].clear()
        return Answer(text, {"card": "c", "deep": [1]})


def test_a_grader_that_changes_its_evidence_changes_no_other_grade_and_no_record() -> None:
    """Each of a user's graders has evidence of its own: their order decides nothing."""
    known = registry(taking=Taking, aside=TakingAside, function=taking_function)
    known.agent("rewriting", lambda: Rewriting())
    graders = [PlannedGrader(name, f"{name} {number}") for number in (1, 2) for name in GRADERS]

    (trial,) = execute(
        known, plan("t", *graders, agent="rewriting", input={"content": "Buy.", "list": ["eggs", "milk"]})
    )

    assert [grade.score for grade in trial.grades] == [1.0] * 6
    assert trial.outcome.answer.state == {"card": "c", "deep": [1]}


def test_an_agent_that_changes_its_input_changes_no_other_trial() -> None:
    """Repetitions are given what the task says, whatever an earlier one did to it."""
    known = registry()
    known.agent("rewriting", lambda: Rewriting())
    task = plan("t", agent="rewriting", input={"content": "Buy.", "list": ["eggs", "milk"]})

    trials = [*execute(known, task), *execute(known, task)]

    assert [trial.outcome.answer.text for trial in trials] == ["eggs,milk", "eggs,milk"]


class Emptying:
    """An agent that takes what it was given out of a map of nothing but texts."""

    def run(self, task_input: Any, ctx: Any) -> Answer:
        """Answer with what the user says."""
        return Answer(task_input.pop("content"))


def test_an_agent_that_empties_an_input_of_texts_empties_no_other() -> None:
    """Of such an input, which most tasks have, only the map is copied."""
    known = registry()
    known.agent("emptying", lambda: Emptying())
    task = plan("t", agent="emptying", input={"content": "Say hello to Mina."})

    trials = execute(known, task, task)

    assert [trial.outcome.answer.text for trial in trials] == ["Say hello to Mina."] * 2


class Named:
    """An agent whose own template hangs on its settings."""

    def __init__(self, name: str) -> None:
        self.templates = {"greeting": f"I am {name}."}

    async def run(self, task_input: Any, ctx: Any) -> Answer:
        """Answer with the template."""
        return Answer(ctx.prompts.render("greeting"))


def test_agents_of_other_settings_have_prompts_of_their_own() -> None:
    """What is made once for many trials is made for each set of settings and of replaced prompts."""
    known = registry()
    known.agent("named", Named)
    mina, bora = ({"name": name} for name in ("Mina", "Bora"))
    plans = [
        plan("mina", agent="named", settings=mina),
        plan("bora", agent="named", settings=bora),
        plan("again", agent="named", settings=mina),
        plan("replaced", agent="named", settings=mina, prompts={"greeting": "Hello."}),
    ]

    trials = execute(known, *plans)

    assert [trial.outcome.answer.text for trial in trials] == [
        "I am Mina.",
        "I am Bora.",
        "I am Mina.",
        "Hello.",
    ]
    assert len({trial.digests.prompt for trial in trials}) == 3

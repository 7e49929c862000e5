"""What agents and graders may say of themselves: documented in one protocol each, and read in one place."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_agenteval.agents.agent import AgentTraits
from pytest_agenteval.engine.agent_run import InvalidAnswer, as_answer, as_end_state
from pytest_agenteval.engine.grading import GradingService
from pytest_agenteval.graders.grader import GraderTraits
from pytest_agenteval.processes.threads import close_at_end, close_clients
from pytest_agenteval.records.evidence import Answer, Evidence, Outcome
from pytest_agenteval.records.factories import GRADER
from pytest_agenteval.records.plan import PlannedGrader
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.registration_check import RegistrationCheck
from pytest_agenteval.tasks.task_spec import GraderSpec

SOURCE = Path(__file__).parents[2] / "src" / "pytest_agenteval"
METHODS = ("with_judges", "end_state", "prepared", "input_problems")
READERS = {"graders/grader.py"}
OTHERS = {"records/factories.py", "records/prompts.py"}
"""A function that was registered as a grader; an exception of jinja2."""


def test_a_trait_is_read_in_one_place() -> None:
    """No ``getattr`` elsewhere in core knows a name that an author has to find in a protocol's docstring.

    Those of agents are read by ``agent_trait`` alone.
    """
    names = "|".join((*METHODS, *GraderTraits.__annotations__, *AgentTraits.__annotations__))
    reads = re.compile(rf'(?:get|has)attr\([^"\n]*"(?:{names})"')
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads.search(path.read_text(encoding="utf-8")) and "benchmarks" not in path.parts
    }
    assert found == READERS | OTHERS


@pytest.mark.parametrize("traits", [GraderTraits, AgentTraits])
def test_every_trait_is_documented(traits: type) -> None:
    """What it means, its default and when it is read stand in the protocol's docstring."""
    assert [name for name in traits.__annotations__ if f"``{name}``" not in (traits.__doc__ or "")] == []


def test_what_is_to_be_closed_is_closed_once_and_all_of_it() -> None:
    """One that cannot be closed keeps no other open, and is told."""
    closed: list[str] = []

    async def good() -> None:
        closed.append("good")

    async def bad() -> None:
        raise OSError("gone")

    for close in (good, bad, good):
        close_at_end(close)
    with pytest.raises(OSError, match="gone"):
        asyncio.run(close_clients())
    asyncio.run(close_clients())
    assert closed == ["good"]


class Acts:
    """An agent that nothing is wrong with."""

    def run(self, task_input: object, ctx: object) -> str:
        """Say something."""
        return "hello"


class Grades:
    """A grader that nothing is wrong with."""

    def grade(self, evidence: object) -> bool:
        """Be content."""
        return True


@pytest.mark.parametrize(
    ("trait", "value", "expected"),
    [
        ("tools", "look", "an agent's tools: a list of names"),
        ("tools", [3], "an agent's tools: a list of names"),
        ("tools", ["nowhere"], "nothing: there is none"),
        ("prompt_names", "system", "an agent's prompt_names: a list of names"),
        ("templates", ["system"], "an agent's templates: a map from names of prompts to texts"),
        ("end_state", {}, "an agent's end_state: a method (task_input, ctx)"),
        ("prepared", 3, "an agent's prepared: a static method (task_input, task_id, clock, read)"),
        ("input_problems", 3, "an agent's input_problems: a static method (task_input)"),
    ],
)
@pytest.mark.parametrize("made", [False, True])
def test_an_agent_that_says_something_else_of_itself_is_refused(
    trait: str, value: object, expected: str, made: bool
) -> None:
    """Before anything is tried, in words, of a class and of an object; no code of ours breaks on it."""
    kind: Any = type("Wrong", (Acts,), {trait: value})
    registry = Registry()
    registry.agent("mine", kind() if made else kind)
    (problem,) = RegistrationCheck(registry).agent("mine", {}, {"content": "hi"})
    assert (problem.path, problem.expected) == (("agent",), expected)


@pytest.mark.parametrize("hint", [(), ("say another",)])
def test_what_is_wrong_with_an_input_stands_at_its_key(hint: tuple[str, ...]) -> None:
    """An agent says where, what it expects and what it found; a hint it may leave out."""
    kind: Any = type(
        "Strict", (Acts,), {"input_problems": lambda task_input: [(("day",), "a day", "none", *hint)]}
    )
    registry = Registry()
    registry.agent("mine", kind)
    (problem,) = RegistrationCheck(registry).agent("mine", {}, {"content": "hi"})
    assert problem == (("input", "day"), "a day", "none", *(hint or ("",)))


@pytest.mark.parametrize("returned", [None, ["bad"], [("day", "a day")], "bad"])
def test_a_check_of_inputs_that_returns_no_list_of_problems_is_one_problem(returned: object) -> None:
    """An author forgets to return a list, or a part of a problem: that is a problem, and no traceback."""
    kind: Any = type("Strict", (Acts,), {"input_problems": staticmethod(lambda task_input: returned)})
    registry = Registry()
    registry.agent("mine", kind)
    (problem,) = RegistrationCheck(registry).agent("mine", {}, {"content": "hi"})
    expected = "an agent's input_problems: to give a list of (key path, expected, found[, hint])"
    assert problem == (("agent",), expected, repr(returned), "")


@pytest.mark.parametrize(
    ("trait", "value", "expected"),
    [
        ("version", 3, "a grader's version: a text"),
        ("quick", "yes", "a grader's quick: True or False"),
        ("rubric_digest", lambda self: "", "a grader's rubric_digest: a text"),
        ("files", ["text"], "a grader's files: a map from settings to the endings of files' names"),
        ("names_tools", ("tool",), "a grader's names_tools: the name of a setting"),
        ("with_judges", True, "a grader's with_judges: a method (judges)"),
        ("grade", 3, GRADER.how),
    ],
)
@pytest.mark.parametrize("made", [False, True])
def test_a_grader_that_says_something_else_of_itself_is_refused(
    trait: str, value: object, expected: str, made: bool
) -> None:
    """Before anything is tried: a list of files that nobody reads would be passed over in silence."""
    kind: Any = type("Wrong", (Grades,), {trait: value})
    if made and trait == "grade":  # of which no object can be registered: the class is looked at both times
        made = False
    registry = Registry()
    registry.grader("mine", kind() if made else kind)
    (problem,) = RegistrationCheck(registry).grader(GraderSpec(name="mine"))
    assert (problem.path, problem.expected) == (("name",), expected)


def test_what_a_class_only_describes_is_not_looked_into() -> None:
    """A property may read a file, a slot is filled when an object is made."""
    slots = {"__slots__": ("version",), "rubric_digest": property(lambda self: 1 / 0)}
    registry = Registry()
    registry.grader("mine", type("Described", (Grades,), slots))
    assert RegistrationCheck(registry).grader(GraderSpec(name="mine")) == ()


@pytest.mark.parametrize("value", [3, ["a"]])
def test_a_state_that_is_no_map_is_no_answer(value: Any) -> None:
    """The agent is told, and no grader is blamed for what it then looks up."""
    with pytest.raises(InvalidAnswer, match=r"the agent's end_state gave an? .*; expected a map"):
        as_end_state(value)
    with pytest.raises(InvalidAnswer, match=r"an Answer whose state is an? .*; expected a map"):
        as_answer(Answer("done", value), Recorder(lambda: 0.0))
    assert as_answer(Answer("done", cast("Any", None)), Recorder(lambda: 0.0)) == Answer("done")


def test_a_grader_that_is_lost_on_its_judges_is_named() -> None:
    """``with_judges`` that returns nothing is told as such, without a traceback of ours."""

    class Lost(Grades):
        def with_judges(self, judges: object) -> None:
            """Forget to return the grader."""

    registry = Registry()
    registry.grader("lost", cast("Any", Lost))
    evidence = Evidence({"content": "hi"}, Transcript(), Outcome())
    result = asyncio.run(GradingService(registry).grade([PlannedGrader("lost", "lost")], evidence))
    error = result.error
    assert error is not None
    assert error.message.startswith("lost gave None as the grader with its judges: expected ")
    assert (error.cause, error.traceback) == ("grader_crash", "")

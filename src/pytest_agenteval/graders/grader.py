"""What a grader is, and what a judge is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

from pytest_agenteval.chat.chat import Chat
from pytest_agenteval.records.evidence import Evidence, Grade
from pytest_agenteval.records.factories import Trait, is_bool, is_map_of_texts, is_text
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.text.errors import AgentEvalError


class Grader(Protocol):
    """Grades evidence: the protocol of graders.

    Its settings are its fields. What else it may say of itself stands in ``GraderTraits``; one that needs
    judges is a ``JudgedGrader`` too.
    """

    def grade(self, evidence: Evidence) -> Grade | float | Awaitable[Grade | float]:
        """Give the grade; a plain method runs in a worker thread, an async or a quick one on the loop.

        A bool becomes a grade of 1 or 0, a number from 0 to 1 one of that score. A grader that cannot tell
        returns a Grade with the score None. One that raises, or returns anything else, breaks its trial:
        it is errored, with cause ``grader_crash``, and the record has the other graders' grades.
        """
        ...


GraderFunction: TypeAlias = Callable[[Evidence], Grade | float | Awaitable[Grade | float]]
"""A grader that is a function of the evidence."""


class GraderTraits(Protocol):
    """Optional attributes of a grader's class or object.

    - ``version`` (default ``"1"``) is part of the ruler's digest. Raise it when the same evidence may get
      another score, so that scores of two versions are not compared unnoticed.
    - ``threshold`` (default 1.0) is the score from 0 to 1 that passes where neither task nor suite names one.
    - ``quick`` (default False) says that the grader computes for microseconds only. It then runs on the event
      loop, where changing threads would cost more than the grader does.
    - ``rubric_digest`` (default empty) is the digest of what judges are shown, part of the ruler's digest.
    - ``files`` names the settings that may hold a file's name, each with its ending, as in
      ``{"rubric": ".jinja"}``. The grader gets the file's text in place of a name that ends so.
    - ``names_tools`` is the setting that names tools. A name that no tool has is reported if it is close to
      one that exists.
    - ``agent`` names the registered agent for whose work the grader is made. That agent completes the task's
      input where the agent under test cannot.

    All are read once for each configuration, the last three before anything runs.
    """

    version: str
    threshold: float
    quick: bool
    rubric_digest: str
    files: Mapping[str, str]
    names_tools: str
    agent: str


GRADER_TRAITS = (
    Trait("version", "a text", is_text),
    Trait("quick", "True or False", is_bool),
    Trait("rubric_digest", "a text", is_text),
    Trait("files", "a map from settings to the endings of files' names", is_map_of_texts),
    Trait("names_tools", "the name of a setting", is_text),
    Trait("with_judges", "a method (judges)", callable),
)
"""What ``GraderTraits`` and ``JudgedGrader`` may hold; a threshold is looked at with each grade."""


_DEFAULTS: Mapping[str, Any] = {
    "version": "1",
    "threshold": 1.0,
    "quick": False,
    "rubric_digest": "",
    "files": NOTHING,
    "names_tools": "",
}


def trait_of(grader: object, name: str) -> Any:
    """Give what a grader, or its factory, says of itself, else the default; a threshold is unchecked."""
    return getattr(grader, name, _DEFAULTS[name])


def agent_of(factory: object) -> str:
    """Give the name of the agent for whose work a grader is made; empty where it names none."""
    name = getattr(factory, "agent", "")
    # `agent` is not among GRADER_TRAITS, so nothing has checked its type before.
    return name if isinstance(name, str) else ""


class JudgeUnavailable(AgentEvalError):
    """A judge cannot be called; its grades are undecided."""


class Judge(Protocol):
    """A judge model: its name and its chat."""

    @property
    def model(self) -> Model:
        """Its name and its parameters."""
        ...

    @property
    def chat(self) -> Chat:
        """The chat that its requests go through."""
        ...


@runtime_checkable
class JudgedGrader(Protocol):
    """A grader that receives judges before it grades, possibly none."""

    def with_judges(self, judges: Sequence[Judge]) -> Grader:
        """Give a grader that asks these judges; called for each trial, whose judges are its own.

        None are given where the run has none: then its grades are undecided.
        """
        ...


def asks_judges(grader: object) -> TypeGuard[JudgedGrader]:
    """Whether a grader, or a class of graders, needs judges."""
    # hasattr is far quicker than isinstance with a
    # runtime-checkable protocol, and every grade takes this check.
    return hasattr(grader, "with_judges")

"""What a grader is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from pytest_agenteval.chat.chat import Chat
from pytest_agenteval.errors import AgentEvalError
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.plan import Model


class Grader(Protocol):
    """Something that grades evidence and nothing else: no task file, no agent, no disk.

    Its settings are its fields. A class may say ``version`` (text, part of the ruler's digest, default
    ``"1"``), ``threshold`` (the score it wants where the task says none, default 1.0) and ``quick`` (it only
    computes, for microseconds, so that changing threads would cost more than it does; default False) and
    ``files`` (the settings that may name a file, each with its ending: ``{"rubric": ".jinja"}``; in the place
    of a name that ends so the grader is given the file's text).
    """

    def grade(self, evidence: Evidence) -> Grade | float | Awaitable[Grade | float]:
        """Give the grade; a plain method runs in a worker thread, an async or a quick one on the loop.

        A bool becomes a grade of 1 or 0, a number from 0 to 1 one of that score. A grader that cannot tell
        returns a Grade with the score None. One that raises, or returns anything else, breaks its trial:
        it is errored, with cause ``grader_crash``, and the other graders' grades are kept.
        """
        ...


GraderFunction: TypeAlias = Callable[[Evidence], Grade | float | Awaitable[Grade | float]]
"""A function that grades: called with the evidence, as ``Grader.grade`` is."""


class JudgeUnavailable(AgentEvalError):
    """A judge that cannot be asked now: what it would decide is undecided, as where there is no judge."""


class Judge(Protocol):
    """A model that judges: what it is called, and the chat to ask it through."""

    @property
    def model(self) -> Model:
        """What it is called."""
        ...

    @property
    def chat(self) -> Chat:
        """How to ask it."""
        ...


@runtime_checkable
class JudgedGrader(Protocol):
    """A grader that needs judges; it is given them before it grades, and may be given none."""

    def with_judges(self, judges: Sequence[Judge]) -> Grader:
        """Give a grader that asks these judges."""
        ...

"""Which agent, model, grader and tool a name in a task file means."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_agenteval.errors import UsageMistake, few_of, nearest, words_in
from pytest_agenteval.factories import AGENT, GRADER, Contract, factory_of, is_registrable

if TYPE_CHECKING:
    from pytest_agenteval.agents.agent import Agent
    from pytest_agenteval.chat.chat import ChatFactory
    from pytest_agenteval.graders.grader import Grader
    from pytest_agenteval.tools.tool import Tool

OURS = "pytest_agenteval"
_IMPORTING = (__file__, importlib.__file__)
Claim: TypeAlias = "Callable[..., Any] | str"
"""Something to call, or where it is: ``package.module:name``, imported when first needed."""


@dataclass(slots=True)
class _NameTable:
    """One kind of thing, by name, with who offered it."""

    kind: str
    claims: dict[str, Claim]
    claimants: dict[str, str]
    found: dict[str, Any]

    def take(self, name: str, claim: Claim, claimant: str) -> None:
        if name in self.claims:
            first = self.claimants[name]
            raise UsageMistake(f"the {self.kind} name {name!r} is taken: by {first}, and again by {claimant}")
        self.claims[name], self.claimants[name] = claim, claimant

    def get(self, name: str, contract: Contract | None = None) -> Any:
        if name not in self.found:
            if name not in self.claims:
                raise UnknownName(self.kind, name, self.claims)
            claim = self._imported_claim(name)
            self.found[name] = factory_of(contract, claim) if contract else claim
        return self.found[name]

    def _imported_claim(self, name: str) -> Any:
        claim = self.claims[name]
        if not isinstance(claim, str):
            return claim
        module, _, attribute = claim.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except Exception as raised:  # an author's module may raise anything
            if module.startswith(f"{OURS}."):
                raise
            raise NotImported(self.kind, name, claim, self.claimants[name], raised) from raised


class UnknownName(UsageMistake):
    """A name that nobody has registered; says which name is near and which are known."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.hint = nearest(name, self.known)
        rows = [f"unknown {kind} {name!r}", f"known: {few_of(name, self.known)}", self.hint]
        super().__init__("; ".join(row for row in rows if row))


class NotImported(UsageMistake):
    """A name that stands for something to import, which could not be imported."""

    def __init__(self, kind: str, name: str, claim: str, claimant: str, raised: Exception) -> None:
        frames = [each for each in extract_tb(raised.__traceback__) if each.filename[:1] != "<"]
        last = frames[-1] if frames else None
        place = f" ({last.filename}:{last.lineno})" if last and last.filename not in _IMPORTING else ""
        self.expected = f"{claim!r}, which {claimant} registered as the {kind} {name!r}, to be imported"
        self.found = f"{type(raised).__name__}: {words_in(raised)}{place}"
        super().__init__(f"expected {self.expected}; found {self.found}")


class Registry:
    """Agents, models, graders and tools by name; a name is taken once."""

    def __init__(self) -> None:
        self._agents, self._models = _name_table("agent"), _name_table("model")
        self._graders, self._tools = _name_table("grader"), _name_table("tool")
        self._groups: dict[str, tuple[tuple[str, str], ...]] = {}

    def agent(self, name: str, factory: Callable[..., Agent] | str) -> None:
        """Offer an agent; the factory is called with the settings of suite and task as keywords.

        In its place may stand an agent that is made already, or a function ``(task_input, ctx)`` that acts.
        """
        _check(AGENT, name, factory)
        self._agents.take(name, factory, _caller())

    def model(self, name: str, factory: ChatFactory | str) -> None:
        """Offer an offline model: one that needs no key and sends nothing."""
        self._models.take(name, factory, _caller())

    def grader(self, name: str, factory: Callable[..., Grader] | str) -> None:
        """Offer a grader; the factory is called with the task's ``config`` as keywords.

        In its place may stand a grader that is made already, or a function ``(evidence)`` that grades.
        """
        _check(GRADER, name, factory)
        self._graders.take(name, factory, _caller())

    def grader_group(self, name: str, members: Sequence[tuple[str, str]]) -> None:
        """Offer several graders under one name; ``members`` holds each one's name and label.

        A task that names the group is graded by each of them, all with the same ``config``.
        """
        self._graders.take(name, f"a group: {name}", _caller())
        self._groups[name] = tuple(members)

    def group(self, name: str) -> tuple[tuple[str, str], ...]:
        """Give the names and labels of a group's graders; none where the name is no group's."""
        return self._groups.get(name, ())

    def tool(self, tool: Tool) -> None:
        """Offer a tool under its own name."""
        self._tools.take(tool.spec.name, lambda: tool, _caller())
        self._tools.found[tool.spec.name] = tool

    def agent_factory(self, name: str) -> Callable[..., Agent]:
        """Find an agent's factory; raises UnknownName."""
        factory: Callable[..., Agent] = self._agents.get(name, AGENT)
        return factory

    def model_factory(self, name: str) -> ChatFactory:
        """Find an offline model's factory; raises UnknownName."""
        factory: ChatFactory = self._models.get(name)
        return factory

    def grader_factory(self, name: str) -> Callable[..., Grader]:
        """Find a grader's factory; raises UnknownName."""
        factory: Callable[..., Grader] = self._graders.get(name, GRADER)
        return factory

    @property
    def offline_models(self) -> frozenset[str]:
        """The names of all models that need no key."""
        return frozenset(self._models.claims)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every registered tool, by name."""
        return self._tools.found


def _check(contract: Contract, name: str, claim: Any) -> None:
    """Refuse what no agent, or grader, can be made of."""
    if not is_registrable(contract, claim):
        expected = f"the {contract.word} {name!r}: expected {contract.how}"
        raise UsageMistake(f"{expected}; found {claim!r}, by {_caller()}")


def _name_table(kind: str) -> _NameTable:
    return _NameTable(kind, {}, {}, {})


def _caller() -> str:
    """Say where a registration was made: file and line of the hook that made it."""
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"

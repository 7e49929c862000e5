"""Agents and graders that have a name without being registered: written in a suite.yaml, or given by code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.registry.lazy_names import NotImported, import_claim
from pytest_agenteval.text.errors import UsageMistake, key_hint, nearest

if TYPE_CHECKING:
    from pytest_agenteval.agents.agent import Agent


class SuiteAgents:
    """The forms of a process by the agents' names; what they name is imported when first looked up."""

    def __init__(self) -> None:
        self._forms: dict[str, Mapping[str, Any]] = {}
        self._factories: dict[str, Callable[..., Agent]] = {}

    def take(self, name: str, form: Mapping[str, Any]) -> None:
        """Take a name; the same again changes nothing. Raises UsageMistake where another form has it."""
        if self._forms.setdefault(name, form) != form:
            raise UsageMistake(f"another suite's agent is called {name!r} too: give one of them a `name`")

    def __contains__(self, name: str) -> bool:
        """Whether a form has this name."""
        return name in self._forms

    def factory(self, name: str) -> Callable[..., Agent]:
        """Give what makes the agent; raises UsageMistake for a form that names no agent."""
        if name not in self._factories:
            self._factories[name] = _factory_of_form(self._forms[name])
        return self._factories[name]


def _factory_of_form(form: Mapping[str, Any]) -> Callable[..., Agent]:
    from pytest_agenteval.agents.adapters.forms import agent_factory_of

    call = form.get("call")
    if not call:
        return agent_factory_of(form)
    # The import of litellm would ask a server for a list of prices, before any trial.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # They stay: what is imported later, while it runs, is found there too.
    sys.path.extend(path for path in form.get("paths", ()) if path not in sys.path)
    try:
        return agent_factory_of(form, import_claim(call, "agent", "suite.yaml"))
    except NotImported as lost:
        raise AgentNotImported(form, lost.found, _near_attribute(lost.__cause__)) from lost.__cause__
    except UsageMistake as mistake:  # it is there, and nothing that acts
        raise AgentNotImported(form, str(mistake)) from None


def _near_attribute(raised: BaseException | None) -> str:
    return nearest(raised.name, dir(raised.obj)) if isinstance(raised, AttributeError) and raised.name else ""


class AgentNotImported(NotImported):
    """What a form's ``call`` names cannot be imported, or is nothing that acts."""

    def __init__(self, form: Mapping[str, Any], found: str, near: str = "") -> None:
        self.expected = "package.module:name of what acts: a function, an object with run, a class with run"
        self.found = found if form["call"] in found else f"{form['call']!r}: {found}"
        places = [*form.get("paths", ()), "wherever Python looks"]
        lacks_module = found.startswith("ModuleNotFoundError") and not found.endswith(")")
        self.hint = (
            f"modules are looked for in {' and '.join(places)}" if lacks_module else near or key_hint(found)
        )
        UsageMistake.__init__(self, f"agent: expected {self.expected}; found {self.found}")


class CodeAgents:
    """What code gives as agents, by number; ``make`` makes a factory of a name and what acts.

    Several may be written at one place, as functions of functions are: plans carry their number.
    """

    def __init__(self, make: Callable[[str, Any], Callable[..., Any]]) -> None:
        self._make = make
        self._given: list[tuple[Any, Callable[..., Any]]] = []
        self._forms: dict[str, Mapping[str, Any]] = {}

    def take(self, name: str, target: Any, paths: Sequence[str]) -> None:
        """Take what acts; a later one that was written at the same place has the name from then on."""
        number = next((at for at, (given, _) in enumerate(self._given) if given is target), len(self._given))
        if number == len(self._given):
            self._given.append((target, self._make(name, target)))
        self._forms[name] = {"call": name, "paths": list(paths), "given": number}

    def form(self, name: str) -> Mapping[str, Any]:
        """Give the form that stands for what was given under a name last; an empty map for any other name."""
        return self._forms.get(name, NOTHING)

    def factory(self, form: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Give the factory that a form stands for; None for one that was given elsewhere, or by no code."""
        number: int | None = form.get("given")
        return self._given[number][1] if number is not None and number < len(self._given) else None


class CodeGraders:
    """What code gives as graders, by name."""

    def __init__(self) -> None:
        self._given: dict[str, Any] = {}

    def take(self, name: str, grader: Any) -> str:
        """Give the name of a grader: a number stands behind it where another was written at that place."""
        number, numbered = 1, name
        while self._given.setdefault(numbered, grader) is not grader:
            number += 1
            numbered = f"{name}-{number}"
        return numbered

"""Agents that suites say by a form: which name stands for which, and what makes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pytest_agenteval.registry.name_table import NotImported, import_claim
from pytest_agenteval.text.errors import UsageMistake, key_hint, nearest

if TYPE_CHECKING:
    from pytest_agenteval.agents.agent import Agent


class AgentForms:
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

"""What a task of the Korean benchmark says about itself: the keys that its metrics read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.records.transcript import NOTHING

Maps = Sequence[Mapping[str, Any]]

CONTEXT_USED = "context_used"


@dataclass(frozen=True)
class KoTask:
    """The keys of a task, under the benchmark's own names; each may be left out or null.

    Nothing is checked here: the benchmark's metrics take shapes that no task should have.
    """

    golden_action: Maps | None = ()
    arg_schema: Mapping[str, Any] | None = field(default_factory=lambda: NOTHING)
    resp_schema: Mapping[str, Any] | None = None
    available_tools: Sequence[str] | None = ()
    golden_fields: Maps | None = ()
    minimum_steps: int | None = None
    essential_tools: Sequence[str] | None = ()
    data_flow: Maps | None = ()
    minimum_sources: int | None = None
    error_injection: Mapping[str, Any] | None = None
    fallback_options: Maps | None = ()
    minimum_calls: int | None = None
    task_level: int | str | None = None
    instruction: str | None = None

    @property
    def golden(self) -> list[Mapping[str, Any]]:
        """The golden actions, as a list."""
        given = self.golden_action
        if isinstance(given, Mapping):
            return [given]
        return list(given or ())

    @property
    def golden_calls(self) -> list[Mapping[str, Any]]:
        """The golden actions that call a tool."""
        return [action for action in self.golden if isinstance(action, Mapping) and action.get("tool")]

    @property
    def golden_tools(self) -> list[str]:
        """The tools of the golden calls, each once, in their order."""
        return list(dict.fromkeys(str(action["tool"]) for action in self.golden_calls))

    @property
    def first(self) -> Mapping[str, Any]:
        """The first golden action; empty where there is none."""
        first = next(iter(self.golden), NOTHING)
        return first if isinstance(first, Mapping) else NOTHING

    @property
    def reuses(self) -> int:
        """How often the conversation held already what was asked for."""
        return sum(
            isinstance(action, Mapping) and action.get("action") == CONTEXT_USED for action in self.golden
        )

    @property
    def fallbacks(self) -> list[str]:
        """The tools to fall back on, each once."""
        given = (option.get("tool") for option in self.fallback_options or ())
        return list(dict.fromkeys(str(tool) for tool in given if tool))

    @property
    def injected_tool(self) -> str:
        """The tool that is made to fail; empty where there is none."""
        return str((self.error_injection or NOTHING).get("tool") or "")

"""The calls that are the agent's own doing."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_agenteval.graders.shown import cut
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.transcript import ToolCall


def own_calls(evidence: Evidence, *, succeeded: bool) -> list[ToolCall]:
    """Give the agent's calls in the order the model listed them, or only those that gave no error.

    Calls that the task itself made, to set the stage, are not the agent's doing.
    """
    calls = (call for call in evidence.calls if call.by == "agent")
    return [call for call in calls if not succeeded or call.error is None]


def named(tools: Iterable[str]) -> str:
    """List tools in one short line."""
    return cut(", ".join(tools)) or "no call"

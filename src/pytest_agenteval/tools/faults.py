"""Tools that fail on purpose: what a fault shows the agent in place of a tool's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.tools.tool import ToolResult

MESSAGES: Mapping[str, str] = {
    "timeout": "Request timeout",
    "complete_unavailable": "Service completely unavailable",
    "data_not_available": "No data available",
    "rate_limited": "Too many requests (429): try again later",
}
"""The faults that answer in the tool's place; in the words that APIs commonly use."""


@dataclass(slots=True)
class ToolFault:
    """One fault of one trial's tool.

    Of its calls the first ``after`` are let through, then ``times`` are struck (None: all). ``malformed``
    cuts the answer's JSON off in the middle, ``partial`` keeps the first half of every list (of a text, the
    first half), ``slow`` takes ``seconds`` longer, ``stale`` gives the tool's first answer whatever is asked.
    """

    tool: str
    type: str
    times: int | None = None
    after: int = 0
    seconds: float = 5.0
    _first: ToolResult | None = field(default=None, init=False)

    def applies(self, call: ToolCall, nth: int) -> bool:
        """Whether the nth call of its tool, counted from 1, is struck."""
        late_enough = nth > self.after
        return (
            call.tool == self.tool and late_enough and (self.times is None or nth <= self.after + self.times)
        )

    def serializes(self, call: ToolCall) -> bool:
        """Whether the tool's calls go one after the other: which answer is the first must not be chance."""
        return self.type == "stale" and call.tool == self.tool

    def short_circuit(self, call: ToolCall, nth: int) -> ToolResult | None:
        """Give the error that is shown in place of the tool's answer, if this is such a fault."""
        if self.type not in MESSAGES or not self.applies(call, nth):
            return None
        return ToolResult(error=ToolError(self.type, MESSAGES[self.type]))

    def delay(self, call: ToolCall, nth: int) -> float:
        """Give the seconds that the call takes longer."""
        return self.seconds if self.type == "slow" and self.applies(call, nth) else 0.0

    def alter_result(self, call: ToolCall, nth: int, result: ToolResult) -> ToolResult:
        """Give what becomes of an answer that the tool gave."""
        if call.tool != self.tool or result.error is not None:
            return result
        if self._first is None:
            self._first = result
        if not self.applies(call, nth):
            return result
        if self.type == "stale":
            return self._first
        if self.type == "malformed":
            return ToolResult(_first_half(result.content))
        return ToolResult(_partial(result.value)) if self.type == "partial" else result


def faults_of(planned: Sequence[Mapping[str, Any]]) -> tuple[ToolFault, ...]:
    """Make a trial's own faults of what its plan says."""
    return tuple(ToolFault(**settings) for settings in planned)


def _partial(value: Any) -> Any:
    if isinstance(value, str):
        return _first_half(value)
    if isinstance(value, list):
        return [_within(item) for item in value[: len(value) // 2]]
    return _within(value)


def _within(value: Any) -> Any:
    """Halve the lists inside a value, and leave its single texts and numbers as they are."""
    if isinstance(value, dict):
        return {key: _within(item) for key, item in value.items()}
    return _partial(value) if isinstance(value, list) else value


def _first_half(text: str) -> str:
    return text[: len(text) // 2]

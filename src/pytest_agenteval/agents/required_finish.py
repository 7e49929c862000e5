"""Agents whose work has to come to a finish: one attempt after another, until the end state is complete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import ToolResult

MAX_EQUAL_CALLS = 5


async def run_until_complete(
    attempt: Callable[[], Awaitable[str]],
    end_state: Callable[[], Mapping[str, Any]],
    remind: Callable[[Mapping[str, Any]], None],
    retries: int,
) -> Answer:
    """Make one attempt, then up to ``retries`` more, each after a reminder of what is missing.

    ``attempt`` gives the last words, ``end_state`` a state whose ``is_complete`` says whether that was it,
    ``remind`` is given an incomplete state. The answer holds the last words and the last state; an incomplete
    one is no error: graders tell what it is worth.
    """
    text, state = await attempt(), end_state()
    for _ in range(retries):
        if state["is_complete"]:
            break
        remind(state)
        text, state = await attempt(), end_state()
    return Answer(text, state)


class RepeatedCallGuard:
    """Watches one attempt for a model that goes round in circles."""

    def __init__(self, most: int = MAX_EQUAL_CALLS) -> None:
        self._most = most
        self._last: tuple[str, Mapping[str, Any], str | None] | None = None
        self._count = 0

    def is_stuck(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
        """Whether the same call has now come too often on end, within this reply or over several."""
        for call, _ in answered:
            # Raw arguments too: what is no JSON has no arguments, and would be equal to whatever has none.
            this = call.tool, call.args, call.raw_args
            self._count = self._count + 1 if this == self._last else 1
            self._last = this
            if self._count >= self._most:
                return True
        return False

"""One run after another, until the work on an entry is complete or there are no more runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import ToolResult

MOST_EQUAL_CALLS = 5


async def until_complete(
    run: Callable[[], Awaitable[str]],
    state_now: Callable[[], Mapping[str, Any]],
    remind: Callable[[Mapping[str, Any]], None],
    retries: int,
) -> Answer:
    """Run once, then up to ``retries`` times more, each time after a reminder of what is missing.

    The answer holds the last words and the end state; an incomplete one is no error.
    """
    text, state = await run(), state_now()
    for _ in range(retries):
        if state["is_complete"]:
            break
        remind(state)
        text, state = await run(), state_now()
    return Answer(text, state)


class EqualCalls:
    """Watches one run for a model that goes round in circles."""

    def __init__(self) -> None:
        self._last: tuple[str, Mapping[str, Any], str | None] | None = None
        self._equal = 0

    def too_many(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
        """Whether the same call has now come five times on end, within this reply or over several."""
        for call, _ in answered:
            this = call.tool, call.args, call.raw_args
            self._equal = self._equal + 1 if this == self._last else 1
            self._last = this
            if self._equal >= MOST_EQUAL_CALLS:
                return True
        return False

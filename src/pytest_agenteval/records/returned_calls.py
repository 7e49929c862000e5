"""Calls that an agent tells of, and the same calls as they were seen: what was seen stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.transcript import NOT_FINISHED, ToolCall


def is_ended(call: ToolCall) -> bool:
    """Whether something came of a call."""
    return call.error.type != NOT_FINISHED if call.error else call.result is not None or call.ended > 0


def completed_calls(seen: Sequence[ToolCall], returned: Sequence[ToolCall]) -> list[ToolCall]:
    """Give the calls that were seen, with what only those of equal id tell: results and times."""
    remaining = list(returned)
    return [_completed(call, _take(remaining, _by_id, call)) for call in seen]


def united_calls(seen: Sequence[ToolCall], returned: Sequence[ToolCall]) -> list[ToolCall]:
    """Give all calls: those that are returned, in their order, then those that only were seen.

    A call is the same if its tool and its id are, else if its tool and arguments are.
    """
    remaining = list(seen)
    same = [_take(remaining, _by_id, call) for call in returned]
    same = [
        other or _take(remaining, _by_arguments, call) for call, other in zip(returned, same, strict=True)
    ]
    united = [_executed(call, other) for call, other in zip(returned, same, strict=True)]
    return [*united, *remaining]


def _by_id(call: ToolCall) -> Any:
    return call.tool, call.id


def _by_arguments(call: ToolCall) -> Any:
    return call.tool, call.args, call.raw_args


def _take(calls: list[ToolCall], identity: Callable[[ToolCall], Any], like: ToolCall) -> ToolCall | None:
    """Take the first call of equal identity out of a list."""
    at = next((at for at, call in enumerate(calls) if identity(call) == identity(like)), None)
    return None if at is None else calls.pop(at)


def _completed(call: ToolCall, returned: ToolCall | None) -> ToolCall:
    """Fill in what is not known of a call; what a tape or a tool box wrote down is known."""
    if returned is None or call.by != "agent" or call.tape != "none":
        return call
    if not is_ended(call):
        return replace(call, result=returned.result, error=returned.error, **_times(returned, call))
    return replace(call, **_times(returned, call)) if not call.started or not call.ended else call


def _times(returned: ToolCall, call: ToolCall) -> dict[str, float]:
    timed = returned if returned.ended else call
    return {"started": timed.started, "ended": timed.ended}


def _executed(returned: ToolCall, seen: ToolCall | None) -> ToolCall:
    """Give a returned call with what was seen to come of it."""
    if seen is None:
        return returned
    outcome = {name: getattr(seen, name) for name in ("result", "error", "started", "ended", "tape")}
    return replace(returned, **outcome)

"""Calls that an agent tells of, and the same calls as they were seen: what was seen stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.transcript import NOT_FINISHED, ToolCall


def is_ended(call: ToolCall) -> bool:
    """Whether something is known to have come of a call."""
    return call.error.type != NOT_FINISHED if call.error else call.result is not None


def completed_calls(
    seen: Sequence[ToolCall], returned: Sequence[ToolCall], untimed: Collection[int]
) -> list[ToolCall]:
    """Give the calls that were seen, with what only those of equal id tell: results and times.

    ``untimed`` are the places of those that nobody saw being made: a reply asked for them, a later request
    had their results, and when they were made in between is not known.
    """
    remaining = list(returned)
    others = [_take(remaining, _by_id, call) for call in seen]
    pairs = enumerate(zip(seen, others, strict=True))
    return [_completed(call, other) if other and at in untimed else call for at, (call, other) in pairs]


def unseen_calls(seen: Sequence[ToolCall], returned: Sequence[ToolCall]) -> list[ToolCall]:
    """Give the calls that are returned and were not seen: by id, else by tool and arguments, else by tool."""
    remaining, unseen = list(seen), list(returned)
    for identity in (_by_id, _by_arguments, _by_tool):
        unseen = [call for call in unseen if _take(remaining, identity, call) is None]
    return unseen


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


def _by_tool(call: ToolCall) -> Any:
    """Give a tool's name without that of its server, which clients of MCP put before it."""
    return re.split(r"__|[./]", call.tool)[-1]


def _by_arguments(call: ToolCall) -> Any:
    return call.tool, call.args, call.raw_args


def _take(calls: list[ToolCall], identity: Callable[[ToolCall], Any], like: ToolCall) -> ToolCall | None:
    """Take the first call of equal identity out of a list."""
    at = next((at for at, call in enumerate(calls) if identity(call) == identity(like)), None)
    return None if at is None else calls.pop(at)


def _completed(call: ToolCall, returned: ToolCall) -> ToolCall:
    timed = returned if returned.ended else call
    told = call if is_ended(call) else returned
    return replace(call, result=told.result, error=told.error, started=timed.started, ended=timed.ended)


def _executed(returned: ToolCall, seen: ToolCall | None) -> ToolCall:
    """Give a returned call with what was seen to come of it."""
    if seen is None:
        return returned
    outcome = {name: getattr(seen, name) for name in ("result", "error", "started", "ended", "tape")}
    return replace(returned, **outcome)

"""Reads what litellm gives back into a Reply; knows its shape, and does not import it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.chat.usage import credible_usage
from pytest_agenteval.records.tool import parse_args
from pytest_agenteval.records.transcript import ToolCall, Usage

FINISHES: Mapping[str, str] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


def reply_of(answer: Any, call_ids: str, unknown_finish: str = "") -> Reply:
    """Read a whole reply; a call without an id of its own gets ``call_ids`` and its place.

    ``unknown_finish`` is the provider's reason for the end where litellm did not know it, and says stop.
    """
    if not answer.choices:
        raise ValueError("it holds no choices")
    choice = answer.choices[0]
    message = choice.message
    refusal = _refusal(message)
    calls = tuple(_calls(message.tool_calls or (), call_ids))
    return Reply(
        text=message.content or refusal,
        calls=calls,
        usage=_usage(answer),
        finish=_finish(unknown_finish or choice.finish_reason, calls, refusal),
        reasoning=getattr(message, "reasoning_content", None) or "",
    )


def _calls(told: Iterable[Any], call_ids: str) -> Iterator[ToolCall]:
    """Read calls; an id that comes twice would leave open which result answers which call."""
    taken: set[str] = set()
    for place, call in enumerate(told):
        id = call.id if call.id and call.id not in taken else f"{call_ids}_{place}"
        taken.add(id)
        args, raw = parse_args(call.function.arguments or "{}")
        yield ToolCall(id, 0, place, call.function.name or "", args, raw)


def _refusal(message: Any) -> str:
    told = getattr(message, "refusal", None) or (message.get("provider_specific_fields") or {}).get("refusal")
    return told or ""


def _finish(told: str | None, calls: tuple[ToolCall, ...], refusal: str) -> str:
    """Give the reason in our words, or as it is where there is none for it.

    Some providers say stop where they mean their calls.
    """
    finish = "content_filter" if refusal else FINISHES.get(told or "stop", told or "stop")
    return "tool_calls" if calls and finish == "stop" else finish


def _usage(answer: Any) -> Usage:
    told = getattr(answer, "usage", None)
    read = getattr(told, "prompt_tokens_details", None)
    written = getattr(told, "completion_tokens_details", None)
    # A price of 0 is that of a model whose price litellm does not know yet.
    cost = answer._hidden_params.get("response_cost") or None
    return credible_usage(
        Usage(
            input_tokens=_count(told, "prompt_tokens"),
            output_tokens=_count(told, "completion_tokens"),
            cached_tokens=_count(read, "cached_tokens"),
            reasoning_tokens=_count(written, "reasoning_tokens"),
            cost_usd=cost,
            asks=1,
            attempts=1,
        )
    )


def _count(told: Any, name: str) -> int:
    return int(getattr(told, name, None) or 0)

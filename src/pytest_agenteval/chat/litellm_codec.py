"""Requests and replies in litellm's shape: written and read without importing it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from pytest_agenteval.chat.chat import Reply
from pytest_agenteval.chat.prices import with_own_price
from pytest_agenteval.records.prices import ModelPrice
from pytest_agenteval.records.replies import PricedApart, credible_usage, finish_of, split_thoughts
from pytest_agenteval.records.tool import parse_arguments
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.canonical import compact
from pytest_agenteval.text.json_values import whole_text


def plain_copy(value: Any) -> Any:
    """Give a plain copy, as litellm writes into what it gets; lone surrogates become question marks."""
    return json.loads(compact(value).encode("utf-8", "replace"))


def tool_choice(choice: Any) -> Any:
    """Give one of OpenAI's words as it is, and the name of a tool as the tool that has to be called."""
    if choice in ("auto", "none", "required") or not isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice}}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give a schema as the response format; strict where it is one that providers take as strict."""
    named = {"name": "reply", "schema": plain_copy(schema), "strict": _closed(schema)}
    return {"type": "json_schema", "json_schema": named}


def _closed(schema: Any) -> bool:
    """Whether every object of a schema requires all its keys and allows no others, as strict ones must."""
    if isinstance(schema, list | tuple):
        return all(map(_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object":
        keys = set(schema.get("properties", {}))
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != keys:
            return False
    return all(map(_closed, schema.values()))


def reply_of(answer: Any, call_ids: str, unknown_finish: str = "", price: ModelPrice | None = None) -> Reply:
    """Read a whole reply; a call without an id of its own gets ``call_ids`` and its place.

    ``unknown_finish`` is the provider's reason for the end where litellm did not know it, and says stop;
    ``price`` is the user's own.
    """
    if not answer.choices:
        raise ValueError("it holds no choices")
    choice = answer.choices[0]
    message = choice.message
    refusal = _refusal(message)
    calls = tuple(_calls(message.tool_calls or (), call_ids))
    text, thought = split_thoughts(whole_text(message.content or refusal))
    reasoning = whole_text(getattr(message, "reasoning_content", None) or "")
    return Reply(
        text=text,
        calls=calls,
        usage=usage_of(answer, price),
        finish=finish_of(unknown_finish or choice.finish_reason, calls=bool(calls), refused=bool(refusal)),
        reasoning="\n\n".join(filter(None, (reasoning, thought))),
    )


def _calls(calls: Iterable[Any], call_ids: str) -> Iterator[ToolCall]:
    """Read calls; an id that comes twice would leave open which result answers which call."""
    used_ids: set[str] = set()
    for place, call in enumerate(calls):
        id = call.id if call.id and call.id not in used_ids else f"{call_ids}_{place}"
        used_ids.add(id)
        args, raw = parse_arguments(whole_text(call.function.arguments or "{}"))
        yield ToolCall(id, 0, place, call.function.name or "", args, raw)


def _refusal(message: Any) -> str:
    # Some providers' refusals stand among the fields that litellm passes on as they came.
    fields = message.get("provider_specific_fields") or {}
    return getattr(message, "refusal", None) or fields.get("refusal") or ""


def usage_of(answer: Any, price: ModelPrice | None = None) -> Usage:
    """Give what a reply took, as the provider counts it, at the user's own price, else litellm's."""
    usage = getattr(answer, "usage", None)
    input_details = getattr(usage, "prompt_tokens_details", None)
    output_details = getattr(usage, "completion_tokens_details", None)
    # A price of 0 is that of a model whose price litellm does not know yet.
    cost = answer._hidden_params.get("response_cost") or None
    told = credible_usage(
        Usage(
            input_tokens=_count(usage, "prompt_tokens"),
            output_tokens=_count(usage, "completion_tokens"),
            cached_tokens=_count(input_details, "cached_tokens"),
            reasoning_tokens=_count(output_details, "reasoning_tokens"),
            cost_usd=cost,
            asks=1,
            attempts=1,
        )
    )
    if price is None or not (told.tokens or price.is_free):
        return told
    return with_own_price(price, told, PricedApart(_count(input_details, "cache_creation_tokens") or 0))


def _count(counts: Any, name: str) -> int | None:
    count = getattr(counts, name, None)
    return None if count is None else int(count)


_words: ContextVar[list[str] | None] = ContextVar("agenteval_unknown_finishes", default=None)


def collect_unknown_finishes() -> list[str]:
    """Give the list that gets the words that litellm does not know while this task reads a reply."""
    words: list[str] = []
    _words.set(words)
    return words


class FinishReasons(dict[str, Any]):
    """litellm's own table of such words, which makes ``stop`` of any other: they are noted on their way."""

    def get(self, word: Any, default: Any = None) -> Any:
        """Give what litellm knows of a word."""
        unknown_words = _words.get()
        if word not in self and unknown_words is not None and isinstance(word, str):
            unknown_words.append(word)
        return super().get(word, default)

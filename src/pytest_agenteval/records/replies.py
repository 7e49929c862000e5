"""What is common to every model's reply, whoever read it: true counts, what has a price, why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import Usage

MOST_TOKENS = 10**9
"""No model reads or writes as many in one reply."""

UNKNOWN = Usage(cost_usd=None, asks=1, attempts=1)
"""The usage of one reply that nobody can tell: no tokens to add, and a price that is not known."""


class PricedApart(FrozenValue, frozen=True):
    """Tokens of one reply that have prices of their own; its usage counts them with all others.

    ``hour_writes`` are those of ``cache_writes`` that are kept for an hour. ``service_tier`` is the
    provider's word for how quickly it answered, where that has a price.
    """

    cache_writes: int = 0
    hour_writes: int = 0
    audio_input: int = 0
    audio_output: int = 0
    service_tier: str = ""


FINISHES: Mapping[str, str] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


def finish_of(reason: str, *, calls: bool, refused: bool = False) -> str:
    """Give the reason for a reply's end in our words, or as it is where there is none for it.

    Some providers say stop where they mean their calls.
    """
    finish = "content_filter" if refused else FINISHES.get(reason or "stop", reason or "stop")
    return "tool_calls" if calls and finish == "stop" else finish


def credible_usage(usage: Usage) -> Usage:
    """Give the usage of one reply, or ``UNKNOWN`` where one of its counts cannot be true.

    What is below 0 would take tokens off other replies' when they are added up.
    """
    counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
    if not all(map(_possible, counts)):
        return UNKNOWN
    cost = usage.cost_usd
    priced = cost is None or (isfinite(cost) and cost >= 0)
    return usage if priced else Usage(*counts, None, usage.asks, usage.attempts)


def _possible(count: Any) -> bool:
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS

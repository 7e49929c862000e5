"""What a provider says that a reply took, as far as it can be believed."""

from __future__ import annotations

from math import isfinite
from typing import Any

from pytest_agenteval.records.transcript import Usage

MOST_TOKENS = 10**9
"""No model reads or writes as many in one reply."""

UNKNOWN = Usage(cost_usd=None, asks=1, attempts=1)
"""The usage of one reply that nobody can tell: no tokens to add, and a price that is not known."""


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

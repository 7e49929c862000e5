"""What replies cost that other people's clients asked for."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.transcript import Usage


def with_price(model: str, usage: Usage) -> Usage:
    """Give the usage of one reply with its price in USD, None where nobody here knows it.

    Prices are litellm's. It is asked where it is imported already: its import takes seconds, which no trial
    of an agent that has no use for it is to pay.
    """
    if usage.cost_usd:
        return usage
    litellm: Any = sys.modules.get("litellm")
    cost = None
    if litellm is not None and usage.tokens:
        # An unknown model raises what is litellm's own; a half imported module has no such function yet.
        with suppress(Exception):
            prompt, completion = litellm.cost_per_token(
                model=model,
                prompt_tokens=usage.input_tokens,
                completion_tokens=usage.output_tokens,
                cache_read_input_tokens=usage.cached_tokens,
            )
            cost = float(prompt + completion) or None
    return replace(usage, cost_usd=cost)

"""What replies cost that other people's clients asked for."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.records.transcript import NO_USAGE, Transcript, Usage


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


def with_prices(transcript: Transcript) -> Transcript:
    """Give a transcript whose replies have prices where their model and tokens are told, and no price is."""
    asks = tuple(
        replace(ask, usage=with_price(ask.model, ask.usage))
        if ask.model and ask.usage.cost_usd is None
        else ask
        for ask in transcript.asks
    )
    if asks == transcript.asks or transcript.usage != sum((ask.usage for ask in transcript.asks), NO_USAGE):
        return transcript
    return replace(transcript, asks=asks, usage=sum((ask.usage for ask in asks), NO_USAGE))

"""What replies cost that other people's clients asked for."""

from __future__ import annotations

from msgspec.structs import replace

from pytest_agenteval.chat.price_table import rates_of
from pytest_agenteval.records.transcript import NO_USAGE, Transcript, Usage


def with_price(model: str, usage: Usage) -> Usage:
    """Give the usage of one reply with its price in USD, None where nobody here knows it."""
    if usage.cost_usd:
        return usage
    rates = rates_of(model, usage.input_tokens) if usage.tokens else None
    if rates is None:
        return replace(usage, cost_usd=None)
    fresh = max(0, usage.input_tokens - usage.cached_tokens)
    cost = fresh * rates.prompt + usage.cached_tokens * rates.cached + usage.output_tokens * rates.reply
    return replace(usage, cost_usd=cost or None)


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

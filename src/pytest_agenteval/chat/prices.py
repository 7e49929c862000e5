"""What replies cost that other people's clients asked for."""

from __future__ import annotations

from msgspec.structs import replace

from pytest_agenteval.chat.price_table import Rates, rates_of
from pytest_agenteval.records.prices import NO_PRICES, ModelPrice, Prices, own_price
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.transcript import NO_USAGE, Transcript, Usage

NOTHING_APART = PricedApart()
_EACH = 1e-6


def with_price(
    model: str,
    usage: Usage,
    apart: PricedApart = NOTHING_APART,
    prices: Prices = NO_PRICES,
    asked: str = "",
) -> Usage:
    """Give the usage of one reply with its price in USD, None where nobody here knows it.

    What the user says in ``prices`` comes first, also of the model that was ``asked``, then what the reply
    itself says.
    """
    own = own_price(prices, model, asked)
    if own is not None and (usage.tokens or own.is_free):
        return with_own_price(own, usage, apart)
    if usage.cost_usd:
        return usage
    rates = rates_of(model, usage.input_tokens or 0, apart.service_tier) if usage.tokens else None
    cost = None if rates is None else _prompt_cost(usage, apart, rates) + _reply_cost(usage, apart, rates)
    return replace(usage, cost_usd=cost or None)


def with_own_price(price: ModelPrice, usage: Usage, apart: PricedApart = NOTHING_APART) -> Usage:
    """Give the usage of one reply at the user's price; a price of 0 is one."""
    rates = _rates(price.at(usage.input_tokens or 0))
    return replace(usage, cost_usd=_prompt_cost(usage, apart, rates) + _reply_cost(usage, apart, rates))


def _rates(price: ModelPrice) -> Rates:
    prompt, reply = price.input * _EACH, price.output * _EACH
    cached = prompt if price.cached is None else price.cached * _EACH
    write = prompt if price.cache_write is None else price.cache_write * _EACH
    return Rates(prompt, cached, write, write, prompt, reply, reply, reply)


def is_priced(prices: Prices, *names: str) -> bool:
    """Whether the price of a model that is called by these names is known before it is asked."""
    return own_price(prices, *names) is not None or any(
        rates is not None and (rates.prompt or rates.reply) for rates in (rates_of(name, 1) for name in names)
    )


def _prompt_cost(usage: Usage, apart: PricedApart, rates: Rates) -> float:
    for_an_hour = min(apart.hour_writes, apart.cache_writes)
    cached = usage.cached_tokens or 0  # where nobody knows, all is paid in full
    fresh = max(0, (usage.input_tokens or 0) - cached - apart.cache_writes)
    audio = min(apart.audio_input, fresh)  # of what was cached, some may have been audio too
    return (
        (fresh - audio) * rates.prompt
        + audio * rates.audio_prompt
        + cached * rates.cached
        + (apart.cache_writes - for_an_hour) * rates.cache_write
        + for_an_hour * rates.hour_write
    )


def _reply_cost(usage: Usage, apart: PricedApart, rates: Rates) -> float:
    reasoning = usage.reasoning_tokens or 0
    text = max(0, (usage.output_tokens or 0) - reasoning - apart.audio_output)
    return text * rates.reply + reasoning * rates.reasoning + apart.audio_output * rates.audio_reply


def with_prices(transcript: Transcript, prices: Prices = NO_PRICES) -> Transcript:
    """Give a transcript whose replies have prices where their model and tokens are told, and no price is."""
    asks = tuple(
        replace(ask, usage=with_price(ask.model, ask.usage, prices=prices))
        if ask.model and ask.usage.cost_usd is None
        else ask
        for ask in transcript.asks
    )
    if asks == transcript.asks or transcript.usage != sum((ask.usage for ask in transcript.asks), NO_USAGE):
        return transcript
    return replace(transcript, asks=asks, usage=sum((ask.usage for ask in asks), NO_USAGE))

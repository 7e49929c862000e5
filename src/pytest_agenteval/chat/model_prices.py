"""The cost of a model's tokens: by the user's own prices, else by litellm's table.

The table is read as data, since importing litellm takes seconds. The results equal litellm's own arithmetic
for text and audio. Left out is what only litellm can know: hours at which a provider is cheaper, regions, and
searches that a provider made.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from pytest_agenteval.records.plan import NO_PRICES, ModelPrice, Prices, own_price
from pytest_agenteval.records.replies import PricedApart
from pytest_agenteval.records.transcript import NO_USAGE, Transcript, Usage

TABLE = "model_prices_and_context_window_backup.json"
_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_CACHED, _WRITTEN = "cache_read_input_token_cost", "cache_creation_input_token_cost"
_HOUR_WRITTEN = f"{_WRITTEN}_above_1hr"
_REASONING = "output_cost_per_reasoning_token"
_AUDIO_INPUT, _AUDIO_OUTPUT = "input_cost_per_audio_token", "output_cost_per_audio_token"
_BY_LENGTH = (_INPUT, _OUTPUT, _CACHED, _WRITTEN, _HOUR_WRITTEN)
_THRESHOLD = re.compile(rf"(?:{'|'.join(_BY_LENGTH)})_above_(\d+)(k?)_tokens")
# Providers' words for their service tiers, and the suffix of each tier's keys.
_TIERS = {"flex": "_flex", "priority": "_priority", "fast": "_priority"}
# The prefix of Bedrock's models that are called across regions.
_REGION = re.compile(r"(?:us|eu|apac|us-gov|jp|au|global)\.(?=[a-z0-9]+\.)")
# The base model in the name of a fine-tuned model.
_TUNED = re.compile(r"ft:[^:]+(?=:)")
# Providers with one rate for all prompts, whether long, short or written to a cache, even if the table has
# several.
_ONE_RATE = frozenset({"perplexity"})

PriceEntry = Mapping[str, Any]


class TokenRates(NamedTuple):
    """What one token costs in USD.

    Of the prompt: plain, read from the provider's cache, written to it, written for an hour, or audio; of the
    reply: plain, reasoning, or audio.
    """

    prompt: float
    cached: float
    cache_write: float
    hour_write: float
    audio_prompt: float
    reply: float
    reasoning: float
    audio_reply: float


def token_rates(model: str, prompt_tokens: int, service_tier: str = "") -> TokenRates | None:
    """Give the cost of a model's tokens in a request with so many; None for a model that the table lacks."""
    entry = price_entry(model)
    if entry is None:
        return None
    tier = _tier(entry, prompt_tokens)
    ending = _TIERS.get(service_tier, "")
    if tier is None:
        own = _threshold_rates(entry, prompt_tokens, ending)
    else:
        own = {_OUTPUT: entry.get(_OUTPUT), **tier}
    prompt, reply = float(own[_INPUT] or 0), float(own[_OUTPUT] or 0)
    write = prompt if entry.get("litellm_provider") in _ONE_RATE else _rate_or(own.get(_WRITTEN), prompt)
    # Fireworks charges half of the prompt's rate for cached tokens; the table has no rate for them.
    cached_share = 0.5 if entry.get("litellm_provider") == "fireworks_ai" else 1
    if tier:
        reasoning = own.get(_REASONING)
    else:  # a service tier with its own rate for replies takes that for both
        has_own_rate = ending and entry.get(f"{_OUTPUT}{ending}") is not None
        reasoning = entry.get(f"{_REASONING}{ending}" if has_own_rate else _REASONING)
    return TokenRates(
        prompt,
        _rate_or(own.get(_CACHED), prompt * cached_share),
        write,
        _rate_or(own.get(_HOUR_WRITTEN), write),
        _rate_or(_tier_rate(entry, _AUDIO_INPUT, ending), prompt),
        reply,
        _rate_or(reasoning, reply),
        _rate_or(entry.get(_AUDIO_OUTPUT), reply),
    )


def _rate_or(rate: float | None, otherwise: float) -> float:
    # 0 is a rate, too.
    return otherwise if rate is None else float(rate)


def _tier_rate(entry: PriceEntry, key: str, ending: str) -> float | None:
    # A service tier without a rate of its own has that of all.
    rate: float | None = entry.get(f"{key}{ending}")
    return entry.get(key) if rate is None else rate


@cache
def price_source() -> str:
    """Name the package that the table came with, and its version; empty without one."""
    try:
        return f"litellm {version('litellm')}"
    except PackageNotFoundError:
        return ""


@cache
def _table() -> Mapping[str, msgspec.Raw]:
    """Read the installed litellm's table with its entries unread; empty without litellm."""
    try:
        litellm = find_spec("litellm")
        if litellm is None or litellm.origin is None:
            return {}
        written = Path(litellm.origin).with_name(TABLE).read_bytes()
        # Entries stay undecoded until they are looked up: a run uses few models of a large table.
        return msgspec.json.decode(written, type=dict[str, msgspec.Raw])
    except (OSError, ValueError):  # a litellm with its prices elsewhere
        return {}


@cache
def price_entry(model: str) -> PriceEntry | None:
    """Give a model's entry in the table: by its whole name, else without provider or region."""
    _, slash, name = model.partition("/")
    bare = name or model
    region, tuned = _REGION.match(bare), _TUNED.match(bare)
    names = [model, name if slash else "", bare[region.end() :] if region else "", tuned[0] if tuned else ""]
    for name in filter(None, names):
        if (entry := _table_row(name)) is not None:
            # An entry can be an alias, such as claude-opus-latest; litellm 1.110 has 98.
            return _table_row(entry["alias_of"]) if "alias_of" in entry else entry
    return None


def _table_row(name: str) -> PriceEntry | None:
    written = _table().get(name)
    return None if written is None else msgspec.json.decode(written, type=dict[str, Any])


def _tier(entry: PriceEntry, prompt_tokens: int) -> PriceEntry | None:
    """Give the tier in whose range a prompt is, the last beyond all ranges."""
    tiers: list[PriceEntry] = [
        tier for tier in entry.get("tiered_pricing") or () if len(tier.get("range", ())) == 2
    ]
    if not tiers or prompt_tokens <= 0:
        return None
    tiers.sort(key=lambda tier: tier["range"][0])
    fitting = (tier for tier in tiers if tier["range"][0] < prompt_tokens <= tier["range"][1])
    tier = next(fitting, tiers[-1])
    return tier if _INPUT in tier else None


def _threshold_rates(entry: PriceEntry, prompt_tokens: int, ending: str) -> PriceEntry:
    """Give a model's rates; those of the highest threshold that a prompt exceeds hold for all of it."""
    rates = {name: _tier_rate(entry, name, ending) for name in _BY_LENGTH}
    if entry.get("litellm_provider") in _ONE_RATE:
        return rates
    thresholds = {
        int(number) * (1000 if thousands else 1): f"_above_{number}{thousands}_tokens"
        for number, thousands in (found.groups() for found in map(_THRESHOLD.fullmatch, entry) if found)
    }
    # xAI's higher rate already holds for a prompt of exactly the threshold.
    is_inclusive = entry.get("litellm_provider") == "xai"
    for threshold, above in sorted(thresholds.items()):
        if prompt_tokens > threshold or (is_inclusive and prompt_tokens == threshold):
            longer = {name: _tier_rate(entry, f"{name}{above}", ending) for name in _BY_LENGTH}
            rates.update({name: rate for name, rate in longer.items() if rate is not None})
    return rates


NOTHING_APART = PricedApart()
# The user's prices are for a million tokens, as providers publish them.
_EACH = 1e-6


def with_price(
    model: str,
    usage: Usage,
    apart: PricedApart = NOTHING_APART,
    prices: Prices = NO_PRICES,
    requested: str = "",
) -> Usage:
    """Give the usage of one reply with its cost in USD, None where it is unknown.

    The user's ``prices`` come first, also those of the ``requested`` model, then the cost that the reply
    states, then the table.
    """
    own = own_price(prices, model, requested)
    if own is not None and (usage.tokens or own.is_free):
        return with_own_price(own, usage, apart)
    return usage if usage.cost_usd else with_table_price(model, usage, apart)


def with_table_price(model: str, usage: Usage, apart: PricedApart = NOTHING_APART, region: str = "") -> Usage:
    """Give the usage of one reply with its price by the table, which is higher in some regions."""
    rates = token_rates(model, usage.input_tokens or 0, apart.service_tier) if usage.tokens else None
    if rates is None:
        return usage if usage.cost_usd is None else replace(usage, cost_usd=None)
    cost = _prompt_cost(usage, apart, rates) + _reply_cost(usage, apart, rates)
    if region:
        cost *= (price_entry(model) or {}).get(f"regional_processing_uplift_multiplier_{region}") or 1
    # A cost of 0 would count the model as free. Where the table has no rate, the cost is unknown.
    return replace(usage, cost_usd=cost or None)


def with_own_price(price: ModelPrice, usage: Usage, apart: PricedApart = NOTHING_APART) -> Usage:
    """Give the usage of one reply with its cost by the user's price; a price of 0 means free, not unknown."""
    own = price.at(usage.input_tokens or 0)
    prompt, reply = own.input * _EACH, own.output * _EACH
    cached = prompt if own.cached is None else own.cached * _EACH
    write = prompt if own.cache_write is None else own.cache_write * _EACH
    # The user's own prices have no rates for audio and reasoning: those tokens cost as much as any other.
    rates = TokenRates(prompt, cached, write, write, prompt, reply, reply, reply)
    return replace(usage, cost_usd=_prompt_cost(usage, apart, rates) + _reply_cost(usage, apart, rates))


def is_priced(prices: Prices, *names: str) -> bool:
    """Whether the price of a model with these names is known before a request is sent."""
    return own_price(prices, *names) is not None or any(
        rates is not None and (rates.prompt or rates.reply)
        for rates in (token_rates(name, 1) for name in names)
    )


def _prompt_cost(usage: Usage, apart: PricedApart, rates: TokenRates) -> float:
    for_an_hour = min(apart.hour_writes, apart.cache_writes)
    cached = usage.cached_tokens or 0  # where it is unknown, all tokens cost the full rate
    fresh = max(0, (usage.input_tokens or 0) - cached - apart.cache_writes)
    audio = min(apart.audio_input, fresh)  # some of the cached tokens may be audio, too
    return (
        (fresh - audio) * rates.prompt
        + audio * rates.audio_prompt
        + cached * rates.cached
        + (apart.cache_writes - for_an_hour) * rates.cache_write
        + for_an_hour * rates.hour_write
    )


def _reply_cost(usage: Usage, apart: PricedApart, rates: TokenRates) -> float:
    reasoning = usage.reasoning_tokens or 0
    text = max(0, (usage.output_tokens or 0) - reasoning - apart.audio_output)
    return text * rates.reply + reasoning * rates.reasoning + apart.audio_output * rates.audio_reply


def with_prices(transcript: Transcript, prices: Prices = NO_PRICES) -> Transcript:
    """Give a transcript with costs for replies that have a model and tokens, but no cost."""
    asks = tuple(
        replace(ask, usage=with_price(ask.model, ask.usage, prices=prices))
        if ask.model and ask.usage.cost_usd is None
        else ask
        for ask in transcript.asks
    )
    if asks == transcript.asks or transcript.usage != sum((ask.usage for ask in transcript.asks), NO_USAGE):
        return transcript
    return replace(transcript, asks=asks, usage=sum((ask.usage for ask in asks), NO_USAGE))

"""What models cost by litellm's table, which is read as data: importing litellm takes seconds.

The figures are those of litellm's own arithmetic for plain text at standard rates. What it alone can know is
left out: hours at which a provider is cheaper, service tiers, regions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

TABLE = "model_prices_and_context_window_backup.json"
_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_CACHED = "cache_read_input_token_cost"
_THRESHOLD = re.compile(rf"(?:{_INPUT}|{_OUTPUT}|{_CACHED})_above_(\d+)(k?)_tokens")
_AT_THRESHOLD = frozenset({"xai"})
"""Providers that take their higher rate for a prompt of exactly so many tokens, too."""
_CACHED_SHARES: Mapping[object, float] = {"fireworks_ai": 0.5}
"""What of a prompt's price a provider takes for cached tokens whose price the table does not have."""
_ONE_RATE = frozenset({"perplexity"})
"""Providers with one rate for long and short prompts, cached or not, whatever the table says."""

Entry = Mapping[str, Any]


class Rates(NamedTuple):
    """What one token costs in USD: of the prompt, of what the provider had cached of it, of the reply."""

    prompt: float
    cached: float
    reply: float


def rates_of(model: str, prompt_tokens: int) -> Rates | None:
    """Give what a model's tokens cost in a request of so many; None for one that the table does not have."""
    entry = _entry(model)
    if entry is None:
        return None
    tier = _tier(entry, prompt_tokens)
    own = _own_rates(entry, prompt_tokens) if tier is None else {_OUTPUT: entry.get(_OUTPUT), **tier}
    provider, prompt = entry.get("litellm_provider"), float(own[_INPUT] or 0)
    cached = None if provider in _ONE_RATE else own.get(_CACHED)
    if cached is None:
        cached = prompt * _CACHED_SHARES.get(provider, 1)
    return Rates(prompt, float(cached), float(own[_OUTPUT] or 0))


@cache
def _table() -> Mapping[str, msgspec.Raw]:
    """Read the installed litellm's table, without its entries; nothing where there is no litellm."""
    try:
        litellm = find_spec("litellm")
        if litellm is None or litellm.origin is None:
            return {}
        written = Path(litellm.origin).with_name(TABLE).read_bytes()
        return msgspec.json.decode(written, type=dict[str, msgspec.Raw])
    except (OSError, ValueError):  # another litellm, which keeps its prices elsewhere
        return {}


@cache
def _entry(model: str) -> Entry | None:
    """Give a model's line of the table: by its whole name, else without what stands before a slash."""
    for name in _names(model):
        if (written := _table().get(name)) is not None:
            entry: Entry = msgspec.json.decode(written, type=dict[str, Any])
            return entry
    return None


def _names(model: str) -> Iterator[str]:
    yield model
    _, slash, name = model.partition("/")
    if slash:
        yield name


def _tier(entry: Entry, prompt_tokens: int) -> Entry | None:
    """Give the tier of a request: the one in whose range its prompt is, and beyond all ranges the last."""
    tiers: list[Entry] = [
        tier for tier in entry.get("tiered_pricing") or () if len(tier.get("range", ())) == 2
    ]
    if not tiers or prompt_tokens <= 0:
        return None
    tiers.sort(key=lambda tier: tier["range"][0])
    fitting = (tier for tier in tiers if tier["range"][0] < prompt_tokens <= tier["range"][1])
    tier = next(fitting, tiers[-1])
    return tier if _INPUT in tier else None


def _own_rates(entry: Entry, prompt_tokens: int) -> Entry:
    """Give a model's rates, those of the highest threshold that a prompt exceeds, for the whole request."""
    rates = {name: entry.get(name) for name in (_INPUT, _OUTPUT, _CACHED)}
    if entry.get("litellm_provider") in _ONE_RATE:
        return rates
    for above in _exceeded(entry, prompt_tokens):
        rates = {name: entry.get(f"{name}{above}", rate) for name, rate in rates.items()}
    return rates


def _exceeded(entry: Entry, prompt_tokens: int) -> Iterator[str]:
    """Give the endings of keys for prompts as long as this one, the highest threshold last."""
    thresholds = {
        int(number) * (1000 if thousands else 1): f"_above_{number}{thousands}_tokens"
        for number, thousands in (found.groups() for found in map(_THRESHOLD.fullmatch, entry) if found)
    }
    inclusive = entry.get("litellm_provider") in _AT_THRESHOLD
    for threshold in sorted(thresholds):
        if prompt_tokens > threshold or (inclusive and prompt_tokens == threshold):
            yield thresholds[threshold]

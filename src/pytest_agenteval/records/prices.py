"""What a model costs where the user says so, as plain data that travels with every plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pytest_agenteval.records.record import NOTHING, Record


class PriceTier(Record, frozen=True):
    """What a request with more than ``above`` tokens of prompt costs; None: as below that."""

    above: int
    input: float | None = None
    output: float | None = None
    cached: float | None = None
    cache_write: float | None = None


class ModelPrice(Record, frozen=True):
    """What a million tokens of a model cost in USD, and since when that is so.

    ``cached`` are tokens of the prompt that the provider's cache had, ``cache_write`` those that it took;
    None: they cost what others of the prompt do. Of ``tiers`` the highest that a prompt exceeds holds for the
    whole request. ``as_of`` is a date, empty where none is said.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    as_of: str = ""

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing, however many tokens a request has."""
        rates = (self.input, self.output, self.cached, self.cache_write)
        return not any(rates) and not self.tiers

    def at(self, prompt_tokens: int) -> ModelPrice:
        """Give the price of a request with so many tokens of prompt."""
        exceeded = [tier for tier in self.tiers if prompt_tokens > tier.above]
        if not exceeded:
            return self
        tier = max(exceeded, key=lambda tier: tier.above)
        return ModelPrice(
            self.input if tier.input is None else tier.input,
            self.output if tier.output is None else tier.output,
            self.cached if tier.cached is None else tier.cached,
            self.cache_write if tier.cache_write is None else tier.cache_write,
            as_of=self.as_of,
        )


Prices: TypeAlias = Mapping[str, ModelPrice]
"""The user's own prices, by what a model is called: its alias, its id, or the id without its provider."""

NO_PRICES: Prices = NOTHING


def own_price(prices: Prices, *names: str) -> ModelPrice | None:
    """Give the user's price of a model that is called by these names; None where the user says none."""
    if not prices:
        return None
    by_bare_name = {_bare(key): price for key, price in prices.items()}
    for name in filter(None, names):
        price = prices.get(name) or by_bare_name.get(_bare(name))
        if price is not None:
            return price
    return None


def _bare(name: str) -> str:
    """Give a model's name without its provider, which replies do not name."""
    return name.partition("/")[2] or name

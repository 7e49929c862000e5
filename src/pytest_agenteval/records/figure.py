"""A sum of which a part may be unknown."""

from __future__ import annotations

from collections.abc import Collection

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.formatting import format_duration, pluralize

PARTLY_UNKNOWN = " + unknown"
"""Stands behind a sum of which a part is unknown."""


def format_tokens(tokens: Figure) -> str:
    """Write how many tokens were taken: ``1,234 tokens``, ``1,234 tokens + unknown``, ``tokens unknown``."""
    if tokens.known_part is None:
        return "tokens unknown"
    return pluralize(int(tokens.known), "token") + (PARTLY_UNKNOWN if tokens.unknown else "")


def format_cost(usd: Figure) -> str:
    """Write what was paid: ``$1.23``, ``$1.23 + unknown``, ``cost unknown``."""
    if usd.known_part is None:
        return "cost unknown"
    paid = f"${usd.known:.2f}" if usd.known >= 1 or usd.known == 0 else f"${usd.known:.4f}"
    return paid + (PARTLY_UNKNOWN if usd.unknown else "")


def format_seconds(seconds: Figure) -> str:
    """Write how long agents took: ``1.2 s``, ``1.2 s + unknown``, ``time unknown``."""
    if seconds.known_part is None:
        return "time unknown"
    return format_duration(seconds.known) + (PARTLY_UNKNOWN if seconds.unknown else "")


class Figure(FrozenValue, frozen=True, gc=False):
    """A sum of counts or amounts: ``known`` is what is known of it, ``unknown`` how many parts are not.

    It is false only where nothing was taken, which is known.
    """

    known: float = 0
    unknown: int = 0

    @property
    def value(self) -> float | None:
        """The sum, None where any part of it is unknown."""
        return None if self.unknown else self.known

    @property
    def known_part(self) -> float | None:
        """What is known of it, None where nothing is."""
        return self.known if self.known or not self.unknown else None

    def __bool__(self) -> bool:
        return bool(self.known or self.unknown)

    def __add__(self, other: Figure) -> Figure:
        return Figure(self.known + other.known, self.unknown + other.unknown)


def sum_of(values: Collection[float | None]) -> Figure:
    """Add up figures of which some may be unknown, which is None."""
    known = [value for value in values if value is not None]
    return Figure(sum(known), len(values) - len(known))

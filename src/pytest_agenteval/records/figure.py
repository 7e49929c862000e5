"""A sum of which a part may be unknown."""

from __future__ import annotations

from collections.abc import Collection

from pytest_agenteval.records.record import FrozenValue


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

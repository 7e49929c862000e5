"""The kinds of matchers: each says whether a value that was found is one that was meant.

``str`` of a matcher is the *expected* side of a check. A value that is not there is ABSENT, which only
``NoValue`` matches.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any, Protocol

from pytest_agenteval.graders.formatting import brief
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import (
    ABSENT,
    fold_texts,
    is_part_of,
    json_equal,
    normal_texts,
    number_of,
)
from pytest_agenteval.text.patterns import Pattern

# Decimals as they are written: 0.4 lies within 0.1 of 0.3, which it does not in binary.
_EXACTLY = Context(prec=400)


class Matcher(Protocol):
    """Tells the values that were meant from others."""

    def matches(self, found: Any) -> bool:
        """Whether this value is one that was meant."""
        ...


class Exact(FrozenValue, frozen=True):
    """The value is this one."""

    value: Any
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the value is equal; 1 is 1.0, but true is not 1."""
        return json_equal(*_fold_both(self.value, found, fold=self.fold))

    def __str__(self) -> str:
        return brief(self.value)


class Subset(FrozenValue, frozen=True):
    """The value holds at least this."""

    value: Any
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the map's keys, or the list's items, are all there."""
        return is_part_of(*_fold_both(self.value, found, fold=self.fold))

    def __str__(self) -> str:
        return f"at least {brief(self.value)}"


class Contains(FrozenValue, frozen=True):
    """The value is a text that contains this text, or a list that has this item."""

    value: Any
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the text or the item is in there; what is neither text nor list contains nothing."""
        expected, found = _fold_both(self.value, found, fold=self.fold)
        if isinstance(found, str):
            return isinstance(expected, str) and expected in found
        return isinstance(found, list | tuple) and any(json_equal(expected, item) for item in found)

    def __str__(self) -> str:
        return f"a value that contains {brief(self.value)}"


class OneOf(FrozenValue, frozen=True):
    """The value is one of these."""

    values: tuple[Any, ...]
    fold: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the value is equal to one of them."""
        return any(Exact(value, self.fold).matches(found) for value in self.values)

    def __str__(self) -> str:
        return f"one of {', '.join(map(brief, self.values))}"


class NearNumber(FrozenValue, frozen=True):
    """The value is this number, or a text that is one, give or take a margin."""

    number: int | float
    margin: int | float = 0
    relative: bool = False

    def matches(self, found: Any) -> bool:
        """Whether the number lies within the margin, its ends included."""
        number, meant = number_of(found), number_of(self.number)
        if number is None or meant is None:
            return False
        margin = _EXACTLY.multiply(
            Decimal(str(self.margin)), meant.copy_abs() if self.relative else Decimal(1)
        )
        return _EXACTLY.subtract(number, meant).copy_abs() <= margin

    def __str__(self) -> str:
        share = " of it" if self.relative else ""
        return f"{self.number} ± {self.margin}{share}" if self.margin else f"the number {self.number}"


class MatchesPattern(FrozenValue, frozen=True):
    """The value is a text in which this pattern is found."""

    pattern: Pattern

    def matches(self, found: Any) -> bool:
        """Whether the pattern is found anywhere in the text; what is no text does not match."""
        return isinstance(found, str) and self.pattern.matches(found)

    def __str__(self) -> str:
        return f"a text that matches {brief(self.pattern.pattern)}"


class AnyValue(FrozenValue, frozen=True):
    """There is a value, whatever it is."""

    def matches(self, found: Any) -> bool:
        """Whether there is one; null is one."""
        return found is not ABSENT

    def __str__(self) -> str:
        return "any value"


class NoValue(FrozenValue, frozen=True):
    """There is no value."""

    def matches(self, found: Any) -> bool:
        """Whether there is none; null is one."""
        return found is ABSENT

    def __str__(self) -> str:
        return "nothing"


def _fold_both(expected: Any, found: Any, *, fold: bool) -> tuple[Any, Any]:
    expected, found = normal_texts(expected), normal_texts(found)
    return (fold_texts(expected), fold_texts(found)) if fold else (expected, found)

"""Narrows a bucket of recorded calls down by texts that hold each other and by numbers that are near."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from pytest_agenteval.cassettes.rules import Rules, folded, number_of

FEW = 8  # so few are compared faster than narrowed down
LETTERS = 3


class Narrowing(Protocol):
    """One parameter's values in a bucket."""

    def add(self, value: Any, slot: int) -> None:
        """Take in a recorded value."""
        ...

    def near(self, value: Any) -> Collection[int] | None:
        """Give the places of all values that may be accepted for this one; None where it cannot tell."""
        ...

    def slots(self, near: Collection[int]) -> Iterable[int]:
        """Give the slots of these places."""
        ...


class Numbers:
    """Numbers in their order."""

    def __init__(self, tolerance: Decimal) -> None:
        self._tolerance = tolerance
        self._sorted: list[tuple[Decimal, int]] = []

    def add(self, value: Any, slot: int) -> None:
        """Take in a recorded value; one that is no number is near none."""
        number = number_of(value)
        if number is not None:
            insort(self._sorted, (number, slot))

    def near(self, value: Any) -> Collection[int] | None:
        """Give the places of the numbers within the tolerance."""
        number = number_of(value)
        if number is None:
            return None
        first = bisect_left(self._sorted, number - self._tolerance, key=_number)
        return range(first, bisect_right(self._sorted, number + self._tolerance, lo=first, key=_number))

    def slots(self, near: Collection[int]) -> Iterable[int]:
        """Give the slots of these places."""
        return (self._sorted[place][1] for place in near)


class Texts:
    """Folded texts, whole and by the few letters in a row that are in them."""

    def __init__(self) -> None:
        self._whole: dict[str, list[int]] = defaultdict(list)
        self._parts: dict[str, set[int]] = defaultdict(set)
        self._lengths: set[int] = set()

    def add(self, value: Any, slot: int) -> None:
        """Take in a recorded value; one that is no text is in none."""
        if isinstance(value, str):
            text = folded(value)
            self._whole[text].append(slot)
            self._lengths.add(len(text))
            for part in (part for size in range(1, LETTERS + 1) for part in _parts(text, size)):
                self._parts[part].add(slot)

    def near(self, value: Any) -> Collection[int] | None:
        """Give the slots of texts that are in this one, and of those that hold its rarest letters."""
        if not isinstance(value, str) or not (text := folded(value)):
            return None
        within = (part for length in self._lengths for part in _parts(text, length))
        found = {slot for part in within for slot in self._whole.get(part, ())}
        rare = _parts(text, min(LETTERS, len(text)))
        return found | min((self._parts.get(part, set()) for part in rare), key=len)

    def slots(self, near: Collection[int]) -> Iterable[int]:
        """Give the places themselves: they are slots."""
        return near


class Bucket:
    """Recorded calls that the rules cannot tell apart by one value alone."""

    def __init__(self, rules: Rules) -> None:
        self._all: list[int] = []
        self._by_name: Mapping[str, Narrowing] = {
            **{name: Numbers(tolerance) for name, tolerance in rules.numbers.items()},
            **{name: Texts() for name in rules.texts},
        }

    def add(self, args: Mapping[str, Any], slot: int) -> None:
        """Take in a recorded call."""
        self._all.append(slot)
        for name, values in self._by_name.items():
            if name in args:
                values.add(args[name], slot)

    def near(self, args: Mapping[str, Any]) -> Sequence[int]:
        """Give the slots that may be accepted: those that the parameter which tells most leaves."""
        if len(self._all) <= FEW:
            return self._all
        asked = ((values, values.near(args[name])) for name, values in self._by_name.items() if name in args)
        told = [(values, near) for values, near in asked if near is not None]
        if not told:
            return self._all
        values, near = min(told, key=lambda one: len(one[1]))
        return sorted(values.slots(near))


def _number(held: tuple[Decimal, int]) -> Decimal:
    return held[0]


def _parts(text: str, size: int) -> set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}

"""Finds recorded calls by what was asked in them: equal values at once, near ones by an index."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from pytest_agenteval.cassettes.interaction import Interaction, Request
from pytest_agenteval.cassettes.param_matchers import ParamMatchers, folded, number_of

FEW = 8  # so few are compared faster than narrowed down
LETTERS = 3


class ValueIndex(Protocol):
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


class NumberIndex:
    """NumberIndex in their order."""

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


class TextIndex:
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

    def __init__(self, matchers: ParamMatchers) -> None:
        self._all: list[int] = []
        self._by_name: Mapping[str, ValueIndex] = {
            **{name: NumberIndex(tolerance) for name, tolerance in matchers.numbers.items()},
            **{name: TextIndex() for name in matchers.texts},
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


Slot: TypeAlias = int
Args: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallMatcher:
    """How one tool's calls are read, and when two of them are the same.

    ``read_recorded`` gives the arguments of a recorded request, or None for one that is not this tool's,
    ``read_asked`` those of a request that is. Those of equal ``ident`` read alike.
    """

    ident: Hashable
    read_recorded: Callable[[Request], Args | None]
    read_asked: Callable[[Request], Args | None]
    matchers: ParamMatchers


class CandidateIndex:
    """One tool's calls in one cassette, in buckets: those of other buckets are not looked at.

    A bucket holds the calls that are equal in every parameter with the rule ``exact`` or ``folded``. Within
    a bucket only those are compared that one of the others, ``contains`` and ``number``, leaves.
    """

    def __init__(self, matcher: CallMatcher) -> None:
        self._matcher = matcher
        self._buckets: dict[Hashable, Bucket] = defaultdict(lambda: Bucket(matcher.matchers))
        self._args: dict[Slot, Args] = {}
        self._seen = 0

    def take_in(self, items: Sequence[Interaction]) -> None:
        """Read what has been added since the last time."""
        for slot in range(self._seen, len(items)):
            args = self._matcher.read_recorded(items[slot].request)
            if args is not None:
                self._args[slot] = args
                self._buckets[self._matcher.matchers.key(args)].add(args, slot)
        self._seen = len(items)

    def candidates(self, args: Args) -> Sequence[Slot]:
        """Give the slots of calls that may be accepted for these arguments, in order of recording."""
        bucket = self._buckets.get(self._matcher.matchers.key(args))
        return () if bucket is None else bucket.near(args)

    def args(self, slot: Slot) -> Args:
        """Give what the call of a slot asked."""
        return self._args[slot]

    @property
    def calls(self) -> Sequence[Args]:
        """What was asked in every recorded call of this tool."""
        return tuple(self._args.values())

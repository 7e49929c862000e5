"""Finds recorded interactions: equal requests at once, calls that ``matching`` accepts by an index."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol, TypeAlias

from pytest_agenteval.cassettes.interaction import Interaction, Request
from pytest_agenteval.cassettes.param_matchers import ParamMatchers
from pytest_agenteval.cassettes.request_identity import (
    CallArgs,
    CallMatcher,
    EndpointKey,
    Key,
    address_of,
    key_of,
)
from pytest_agenteval.text.json_values import fold_compact, number_of

InteractionSlot: TypeAlias = int
"""The place of an interaction in its cassette: it never changes, so a tape can note what it has played."""

MOST_INDEXES = 256  # where tools are made anew for each trial, those of trials long gone
FEW = 8  # so few are compared faster than narrowed down
LETTERS = 3


class InteractionIndex:
    """The interactions of one cassette, by slot, by equal request, by endpoint and by what a tool asked."""

    def __init__(self) -> None:
        self._interactions: list[Interaction] = []
        self._by_request: dict[Key, list[InteractionSlot]] = defaultdict(list)
        self._by_endpoint: dict[EndpointKey, list[InteractionSlot]] = defaultdict(list)
        self._candidates: dict[Hashable, CandidateIndex] = {}

    def __len__(self) -> int:
        return len(self._interactions)

    def __getitem__(self, slot: InteractionSlot) -> Interaction:
        return self._interactions[slot]

    def append(self, interaction: Interaction) -> InteractionSlot:
        """Hold one more interaction, and give its slot."""
        slot = len(self._interactions)
        self._interactions.append(interaction)
        self._by_request[key_of(interaction.request)].append(slot)
        self._by_endpoint[address_of(interaction.request)].append(slot)
        return slot

    def replace_response(self, slot: InteractionSlot, interaction: Interaction) -> Interaction:
        """Put an interaction of the same request into a slot."""
        self._interactions[slot] = interaction
        return interaction

    def by_request(self, key: Key) -> Sequence[InteractionSlot]:
        """Give the slots of equal requests, in the order in which they were recorded."""
        return self._by_request.get(key, ())

    def by_endpoint(self, address: EndpointKey) -> Sequence[InteractionSlot]:
        """Give the slots of requests to the same tool or endpoint."""
        return self._by_endpoint.get(address, ())

    def by_call(self, matcher: CallMatcher) -> CandidateIndex:
        """Give the index of one tool's calls, made when first asked for and up to date."""
        index = self._candidates.get(matcher.ident)
        if index is None:
            if len(self._candidates) >= MOST_INDEXES:
                del self._candidates[next(iter(self._candidates))]
            index = self._candidates[matcher.ident] = CandidateIndex(matcher)
        index.take_in(self._interactions)
        return index

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests that are held, by slot."""
        return tuple(interaction.request for interaction in self._interactions)


class CandidateIndex:
    """One tool's calls in one cassette, in buckets: those of other buckets are not looked at.

    A bucket holds the calls that are equal in every parameter with the rule ``exact`` or ``folded``. Within
    a bucket only those are compared that one of the others, ``contains`` and ``number``, leaves.
    """

    def __init__(self, matcher: CallMatcher) -> None:
        self._matcher = matcher
        self._buckets: dict[Hashable, Bucket] = defaultdict(lambda: Bucket(matcher.matchers))
        self._args: dict[InteractionSlot, CallArgs] = {}
        self._seen = 0

    def take_in(self, interactions: Sequence[Interaction]) -> None:
        """Read what has been added since the last time."""
        for slot in range(self._seen, len(interactions)):
            args = self._matcher.read_recorded(interactions[slot].request)
            if args is not None:
                self._args[slot] = args
                self._buckets[self._matcher.matchers.key(args)].add(args, slot)
        self._seen = len(interactions)

    def candidates(self, args: CallArgs) -> Sequence[InteractionSlot]:
        """Give the slots of calls that may be accepted for these arguments, in order of recording."""
        bucket = self._buckets.get(self._matcher.matchers.key(args))
        return () if bucket is None else bucket.near(args)

    def args(self, slot: InteractionSlot) -> CallArgs:
        """Give what the call of a slot asked."""
        return self._args[slot]


class ValueIndex(Protocol):
    """One parameter's values in a bucket."""

    def add(self, value: Any, slot: InteractionSlot) -> None:
        """Take in a recorded value."""
        ...

    def near(self, value: Any) -> Collection[int] | None:
        """Give the places of all values that may be accepted for this one; None where it cannot tell."""
        ...

    def slots(self, near: Collection[int]) -> Iterable[InteractionSlot]:
        """Give the slots of these places."""
        ...


class NumberIndex:
    """Numbers in their order."""

    def __init__(self, tolerance: Decimal) -> None:
        self._tolerance = tolerance
        self._sorted: list[tuple[Decimal, InteractionSlot]] = []

    def add(self, value: Any, slot: InteractionSlot) -> None:
        """Take in a recorded value; one that is no number is near none."""
        number = number_of(value)
        if number is not None:
            insort(self._sorted, (number, slot))

    def near(self, value: Any) -> Collection[int] | None:
        """Give the places of the numbers within the tolerance."""
        number = number_of(value)
        if number is None:  # it may still equal a recorded text, which stands in no order
            return None
        first = bisect_left(self._sorted, number - self._tolerance, key=_number_of_entry)
        return range(
            first, bisect_right(self._sorted, number + self._tolerance, lo=first, key=_number_of_entry)
        )

    def slots(self, near: Collection[int]) -> Iterable[InteractionSlot]:
        """Give the slots of these places."""
        return (self._sorted[place][1] for place in near)


class FoldedTextIndex:
    """Folded texts, whole and by the few letters in a row that are in them."""

    def __init__(self) -> None:
        self._whole: dict[str, list[InteractionSlot]] = defaultdict(list)
        self._parts: dict[str, set[InteractionSlot]] = defaultdict(set)
        self._lengths: set[int] = set()

    def add(self, value: Any, slot: InteractionSlot) -> None:
        """Take in a recorded value; one that is no text is in none."""
        if isinstance(value, str):
            text = fold_compact(value)
            self._whole[text].append(slot)
            self._lengths.add(len(text))
            for part in (part for size in range(1, LETTERS + 1) for part in _parts(text, size)):
                self._parts[part].add(slot)

    def near(self, value: Any) -> Collection[int] | None:
        """Give the slots of texts that are in this one, and of those that hold its rarest letters."""
        if not isinstance(value, str) or not (text := fold_compact(value)):
            return None
        within = (part for length in self._lengths for part in _parts(text, length))
        contained = {slot for part in within for slot in self._whole.get(part, ())}
        # A text that holds all of this one holds each of its parts: looking at the rarest of them is enough.
        parts = _parts(text, min(LETTERS, len(text)))
        return contained | min((self._parts.get(part, set()) for part in parts), key=len)

    def slots(self, near: Collection[int]) -> Iterable[InteractionSlot]:
        """Give the places themselves: they are slots."""
        return near


class Bucket:
    """Recorded calls that the matchers cannot tell apart by one value alone."""

    def __init__(self, matchers: ParamMatchers) -> None:
        self._all: list[InteractionSlot] = []
        self._by_name: Mapping[str, ValueIndex] = {
            **{name: NumberIndex(tolerance) for name, tolerance in matchers.numbers.items()},
            **{name: FoldedTextIndex() for name in matchers.texts},
        }

    def add(self, args: CallArgs, slot: InteractionSlot) -> None:
        """Take in a recorded call."""
        self._all.append(slot)
        for name, values in self._by_name.items():
            if name in args:
                values.add(args[name], slot)

    def near(self, args: CallArgs) -> Sequence[InteractionSlot]:
        """Give the slots that may be accepted: those that the parameter which tells most leaves."""
        if len(self._all) <= FEW:
            return self._all
        by_name = [
            (values, values.near(args[name])) for name, values in self._by_name.items() if name in args
        ]
        narrowed = [(values, near) for values, near in by_name if near is not None]
        if not narrowed:
            return self._all
        values, near = min(narrowed, key=lambda pair: len(pair[1]))
        return sorted(values.slots(near))


def _number_of_entry(entry: tuple[Decimal, InteractionSlot]) -> Decimal:
    return entry[0]


def _parts(text: str, size: int) -> set[str]:
    return {text[at : at + size] for at in range(len(text) - size + 1)}

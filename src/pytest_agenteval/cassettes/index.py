"""Finds recorded calls by what they asked, whichever way they were written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.interaction import Interaction, Request
from pytest_agenteval.cassettes.narrowing import Bucket
from pytest_agenteval.cassettes.rules import Rules

Slot: TypeAlias = int
Args: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """How one tool's calls are read, and when two of them are the same.

    ``read`` gives the arguments of a recorded request, or None for one that is not this tool's, ``asked``
    those of a request that is. Readings of equal ``ident`` read alike.
    """

    ident: Hashable
    read: Callable[[Request], Args | None]
    asked: Callable[[Request], Args | None]
    rules: Rules


class Index:
    """One tool's calls in one cassette, in buckets: those of other buckets are not looked at.

    A bucket holds the calls that are equal in every parameter with the rule ``exact`` or ``folded``. Within
    a bucket only those are compared that one of the others, ``contains`` and ``number``, leaves.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._buckets: dict[Hashable, Bucket] = defaultdict(lambda: Bucket(reading.rules))
        self._args: dict[Slot, Args] = {}
        self._seen = 0

    def take_in(self, items: Sequence[Interaction]) -> None:
        """Read what has been added since the last time."""
        for slot in range(self._seen, len(items)):
            args = self._reading.read(items[slot].request)
            if args is not None:
                self._args[slot] = args
                self._buckets[self._reading.rules.key(args)].add(args, slot)
        self._seen = len(items)

    def candidates(self, args: Args) -> Sequence[Slot]:
        """Give the slots of calls that may be accepted for these arguments, in order of recording."""
        bucket = self._buckets.get(self._reading.rules.key(args))
        return () if bucket is None else bucket.near(args)

    def args(self, slot: Slot) -> Args:
        """Give what the call of a slot asked."""
        return self._args[slot]

    @property
    def calls(self) -> Sequence[Args]:
        """What was asked in every recorded call of this tool."""
        return tuple(self._args.values())

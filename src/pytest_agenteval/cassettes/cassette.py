"""One recording as a process holds it: loaded once, looked up in constant time, played by many tapes."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pytest_agenteval.cassettes import files
from pytest_agenteval.cassettes.candidate_index import CallMatcher, CandidateIndex, Slot
from pytest_agenteval.cassettes.interaction import Interaction, Request
from pytest_agenteval.cassettes.redaction import Redactor
from pytest_agenteval.cassettes.request_identity import Address, Key, address_of, key_of
from pytest_agenteval.errors import UsageMistake, nearest

Mode: TypeAlias = Literal["none", "once", "new_episodes", "all"]
Kind: TypeAlias = Literal["tool", "chat"]

MOST_INDEXES = 256  # where tools are made anew for each trial, those of trials long gone

MODES: tuple[Mode, ...] = get_args(Mode)
KINDS: tuple[Kind, ...] = get_args(Kind)


class Cassette:
    """What one file holds, and what the trials of this process add to it.

    A slot is the place of an interaction; slots never change, so a tape can note which ones it has played.
    Nothing is given out that has not been redacted; of what is read from a file, requests are redacted at
    once, as they are compared, and each response when it is first looked at: most never are.

    ``started`` is when the run began. What a file held before is dropped by mode ``all``; a file written
    since is of this run, by another worker, so that ``once`` goes on recording into it and ``all`` keeps it.
    """

    def __init__(
        self,
        path: Path,
        mode: Mode = "none",
        kind: Kind = "tool",
        *,
        name: str = "",
        redactor: Redactor | None = None,
        started: float | None = None,
    ) -> None:
        _check("recording mode", mode, MODES)
        _check("kind of cassette", kind, KINDS)
        self.path, self.name, self.kind, self.mode = path, name or str(path), kind, mode
        self.redactor = redactor or Redactor.from_environ()
        self.started = time.time() if started is None else started
        self.lock = threading.RLock()
        self.dirty = False
        self._items: list[Interaction] = []
        self._same: dict[Key, list[Slot]] = defaultdict(list)
        self._alike: dict[Address, list[Slot]] = defaultdict(list)
        self._used: set[Slot] = set()
        self._as_read: set[Slot] = set()
        self._indexes: dict[Hashable, CandidateIndex] = {}
        self._load()

    def _load(self) -> None:
        found = files.read(self.path, self.name)
        of_this_run = found.since(self.started)
        self.recording = self.mode in ("all", "new_episodes") or (
            self.mode == "once" and (not found.there or of_this_run)
        )
        if self.mode != "all" or of_this_run:
            for interaction in found.interactions:
                request = self.redactor.request(interaction.request)
                self._as_read.add(self._append(Interaction(request, interaction.response)))

    def __len__(self) -> int:
        return len(self._items)

    @property
    def interactions(self) -> tuple[Interaction, ...]:
        """All that is held, in the order of the file, then of recording."""
        with self.lock:
            return tuple(map(self.at, range(len(self._items))))

    @property
    def plays(self) -> bool:
        """Can anything recorded be played, or is everything sent and recorded?"""
        return self.mode in ("none", "new_episodes") or not self.recording

    def same(self, key: Key) -> Sequence[Slot]:
        """Give the slots of equal requests, in the order in which they were recorded."""
        return self._same.get(key, ())

    def alike(self, address: Address) -> Sequence[Slot]:
        """Give the slots of requests to the same tool or endpoint."""
        return self._alike.get(address, ())

    def at(self, slot: Slot) -> Interaction:
        """Give the interaction of a slot."""
        item = self._items[slot]
        if slot in self._as_read:
            with self.lock:
                item = self._items[slot] = Interaction(item.request, self.redactor.response(item.response))
                self._as_read.discard(slot)
        return item

    def index(self, matcher: CallMatcher) -> CandidateIndex:
        """Give the index of one tool's calls, made when first asked for and up to date."""
        with self.lock:
            index = self._indexes.get(matcher.ident)
            if index is None:
                if len(self._indexes) >= MOST_INDEXES:
                    del self._indexes[next(iter(self._indexes))]
                index = self._indexes[matcher.ident] = CandidateIndex(matcher)
            index.take_in(self._items)
            return index

    def request(self, slot: Slot) -> Request:
        """Give the request of a slot."""
        return self._items[slot].request

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests that are held."""
        with self.lock:
            return tuple(item.request for item in self._items)

    def use(self, slot: Slot) -> Interaction:
        """Give the interaction of a slot, and remember that it was needed."""
        self._used.add(slot)
        return self.at(slot)

    def add(self, interaction: Interaction) -> Slot:
        """Hold a new interaction, which has been redacted; it is on disk after the next save."""
        with self.lock:
            self.dirty = True
            slot = self._append(interaction)
            self._used.add(slot)
            return slot

    def unused(self) -> tuple[Interaction, ...]:
        """Give what no tape of this process has played or recorded."""
        with self.lock:
            return tuple(self.at(slot) for slot in range(len(self._items)) if slot not in self._used)

    def stale(self, asked_for: Callable[[Request], bool]) -> tuple[Interaction, ...]:
        """Give the interactions whose request is asked for no more."""
        with self.lock:
            return tuple(
                self.at(slot) for slot, item in enumerate(self._items) if not asked_for(item.request)
            )

    @property
    def unused_slots(self) -> frozenset[Slot]:
        """The places of the interactions that no tape of this process has played or recorded."""
        with self.lock:
            return frozenset(range(len(self._items))) - self._used

    @property
    def unused_count(self) -> int:
        """How many interactions no tape of this process has played or recorded."""
        with self.lock:
            return len(self._items) - len(self._used)

    def save(self) -> bool:
        """Add what is new to the file, and say whether there was anything; after a failure, try again."""
        with self.lock:
            if not self.dirty:
                return False
            ours, self.dirty = self.interactions, False
        since = self.started if self.mode == "all" else None
        try:
            files.save(self.path, ours, name=self.name, since=since, clean=self.redactor.interaction)
        except BaseException:
            self.dirty = True
            raise
        return True

    def _append(self, interaction: Interaction) -> Slot:
        slot = len(self._items)
        self._items.append(interaction)
        self._same[key_of(interaction.request)].append(slot)
        self._alike[address_of(interaction.request)].append(slot)
        return slot


def _check(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        hint = nearest(str(given), known)
        raise UsageMistake(
            f"unknown {what} {given!r}: it is one of {', '.join(known)}{f'; {hint}' if hint else ''}"
        )

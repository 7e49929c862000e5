"""A journal that is still being written: finished trials, usage, money spent."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import NO_USAGE, Usage

MOST_READ = 4 * 1024 * 1024
"""Bytes of one journal that are read in one look."""

JOURNAL = re.compile(r"journal-(?P<worker>[^-]+)-.+\.jsonl")


class UsageNews(FrozenValue, frozen=True, gc=False):
    """The usage of models, as a journal's line writes it."""

    input_tokens: int | None = msgspec.field(default=0, name="in")
    output_tokens: int | None = msgspec.field(default=0, name="out")
    cost_usd: float | None = 0.0
    asks: int | None = 0
    partial_tokens: int = 0
    partial_cost_usd: float = 0.0

    @property
    def usage(self) -> Usage:
        """The same as others reckon with it."""
        return Usage(
            self.input_tokens,
            self.output_tokens,
            cost_usd=self.cost_usd,
            asks=self.asks,
            partial_tokens=self.partial_tokens,
            partial_cost_usd=self.partial_cost_usd,
        )


NOTHING_USED = UsageNews()


class JournalNews(FrozenValue, frozen=True, gc=False):
    """A line of a journal as far as it shows what a run is at; the fields are keys of the line.

    ``ending`` and ``score`` are empty where the trial has only begun. ``usage`` is what the agent took,
    ``judging`` what the judges took.
    """

    kind: Literal["started", "finished"]
    suite: str
    task: str
    agent: str
    model: str
    repetition: int
    variant: str = ""
    ending: str = ""
    score: float | None = None
    usage: UsageNews = NOTHING_USED
    judging: UsageNews = NOTHING_USED

    @property
    def key(self) -> TrialKey:
        """Which trial the line is about."""
        return TrialKey(self.suite, self.task, self.agent, self.model, self.variant, self.repetition)


_DECODER = msgspec.json.Decoder(JournalNews)  # most of a line is passed over
_UNREADABLE = (ValueError, msgspec.DecodeError)  # before 0.21 theirs is none of Python's


class JournalTail:
    """Reads what has been added to the journals of a run's folder, those of workers that come later too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[str, int] = {}

    def news(self) -> Iterator[tuple[str, list[JournalNews]]]:
        """Give the new lines of each process with its name: ``main``, or an xdist worker's.

        A line that is written half is given when it is whole; one that nobody can read is left out.
        """
        for name in sorted(os.listdir(self._folder)):
            match = JOURNAL.fullmatch(name)
            data = self._new_lines(name) if match is not None else b""
            if match is not None and data:
                yield match["worker"], _read_lines(data)

    def _new_lines(self, name: str) -> bytes:
        path, offset = self._folder / name, self._offsets.get(name, 0)
        fresh = path.stat().st_size - offset
        if fresh <= 0:
            return b""
        with path.open("rb") as journal:
            journal.seek(offset)
            whole, newline, _ = journal.read(min(fresh, MOST_READ)).rpartition(b"\n")
        self._offsets[name] = offset + len(whole) + len(newline)
        return whole


def _read_lines(data: bytes) -> list[JournalNews]:
    try:
        return _DECODER.decode_lines(data)
    except _UNREADABLE:
        news = []
        for line in data.split(b"\n"):
            with suppress(*_UNREADABLE):
                news.append(_DECODER.decode(line))
        return news


class _PaidLine(FrozenValue, frozen=True, gc=False):
    """A journal's line as far as it shows what was paid."""

    kind: str
    model: str = ""
    usage: UsageNews = NOTHING_USED
    judging: UsageNews = NOTHING_USED
    simulating: UsageNews = NOTHING_USED
    paid: UsageNews | None = None


_PAID_DECODER = msgspec.json.Decoder(_PaidLine)  # most of a line is passed over


def paid_so_far(folder: Path, offline: Collection[str] = ()) -> Usage:
    """Add up what all finished attempts in a run's folder have paid.

    Nobody pays for the models that ``offline`` names: what an agent took of one is left out where it cost
    nothing.
    """
    paid = NO_USAGE
    for file in sorted(folder.glob("journal-*.jsonl")):
        with file.open("rb") as journal:
            for raw in journal:
                try:
                    line = _PAID_DECODER.decode(raw)
                except _UNREADABLE:  # a torn line, which the run's report names
                    continue
                if line.kind == "finished":
                    paid = paid + _paid(line, offline)
    return paid


def _paid(line: _PaidLine, offline: Collection[str]) -> Usage:
    if line.paid is not None:
        return line.paid.usage
    others = line.judging.usage + line.simulating.usage
    is_free = line.model in offline and line.usage.cost_usd == 0
    return others if is_free else line.usage.usage + others

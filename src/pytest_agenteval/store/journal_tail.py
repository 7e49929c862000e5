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
from pytest_agenteval.store.record_files import is_intact

# How many bytes of a journal are read at a time.
MOST_READ = 4 * 1024 * 1024

JOURNAL = re.compile(r"journal-(?P<worker>[^-]+)-.+\.jsonl")


class UsageNews(FrozenValue, frozen=True, gc=False):
    """The usage of models, as a line of a journal stores it."""

    input_tokens: int | None = msgspec.field(default=0, name="in")
    output_tokens: int | None = msgspec.field(default=0, name="out")
    cost_usd: float | None = 0.0
    asks: int | None = 0
    partial_tokens: int = 0
    partial_cost_usd: float = 0.0

    @property
    def usage(self) -> Usage:
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
    """The part of a journal's line that shows the progress of a run; the fields are keys of the line.

    ``ending`` is empty and ``score`` None if the trial has only started. ``usage`` is what the agent used,
    ``judging`` what the judges used.
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
        return TrialKey(self.suite, self.task, self.agent, self.model, self.variant, self.repetition)


# Typed decoders skip the keys that they do not know, which are most of a line.
_DECODER = msgspec.json.Decoder(JournalNews)
# Before msgspec 0.21 its DecodeError was not a ValueError.
_UNREADABLE = (ValueError, msgspec.DecodeError)


class JournalTail:
    """Reads what was added to the journals of a run's folder, including those of workers that start later."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[str, int] = {}

    def news(self) -> Iterator[tuple[str, list[JournalNews]]]:
        """Yield the name of each process (``main``, or an xdist worker's) with its new lines.

        A half-written line is returned once it is whole; a line that cannot be read is left out.
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
            # The offset stays before a half-written line, and the next call reads it again.
            whole, newline, _ = journal.read(min(fresh, MOST_READ)).rpartition(b"\n")
        self._offsets[name] = offset + len(whole) + len(newline)
        return whole


def _read_lines(data: bytes) -> list[JournalNews]:
    try:
        return _DECODER.decode_lines(data)
    except _UNREADABLE:
        # One unreadable line fails the whole batch; decoded one by one, the others are found.
        news = []
        for line in data.split(b"\n"):
            with suppress(*_UNREADABLE):
                news.append(_DECODER.decode(line))
        return news


class _PaidLine(FrozenValue, frozen=True, gc=False):
    """The part of a journal's line that shows what was paid."""

    kind: str
    model: str = ""
    usage: UsageNews = NOTHING_USED
    judging: UsageNews = NOTHING_USED
    simulating: UsageNews = NOTHING_USED
    paid: UsageNews | None = None


_PAID_DECODER = msgspec.json.Decoder(_PaidLine)


def paid_so_far(folder: Path, offline: Collection[str] = ()) -> Usage:
    """Add up what was paid for all finished attempts in a run's folder.

    As in ``Journal``, a damaged line is left out, and a line that stands there twice counts once. Models that
    ``offline`` names cost nothing: an agent's usage of one is left out if its cost is 0.
    """
    paid = NO_USAGE
    for file in sorted(folder.glob("journal-*.jsonl")):
        seen: set[bytes] = set()
        with file.open("rb") as journal:
            for raw in journal:
                try:
                    line = _PAID_DECODER.decode(raw)
                # A line that a crash cut: the run's report names it.
                except _UNREADABLE:
                    continue
                if line.kind == "finished" and raw not in seen and is_intact(raw) is not False:
                    seen.add(raw)
                    paid = paid + _paid(line, offline)
    return paid


def _paid(line: _PaidLine, offline: Collection[str]) -> Usage:
    if line.paid is not None:
        return line.paid.usage
    others = line.judging.usage + line.simulating.usage
    # An agent with an offline model may call real models by itself; then it has a cost.
    is_free = line.model in offline and line.usage.cost_usd == 0
    return others if is_free else line.usage.usage + others

"""The journals of a run that goes on, read as they grow: what began and what ended since the last look."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import NO_USAGE, Usage
from pytest_agenteval.store.json_lines import read_usage

MOST_READ = 4 * 1024 * 1024
"""Bytes of one journal that are read in one look."""

JOURNAL = re.compile(r"journal-(?P<worker>[^-]+)-.+\.jsonl")


class JournalNews(FrozenValue, frozen=True):
    """A line of a journal as far as it says what a run is at; keys are those of the journal's lines.

    ``ending`` and ``score`` are empty where the trial has only begun.
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
    usage: dict[str, Any] | None = None
    judging: dict[str, Any] | None = None

    @property
    def key(self) -> TrialKey:
        """Which trial the line is about."""
        # Interned: of a run's many keys most say the same of suite, agent and model.
        words = map(sys.intern, (self.suite, self.task, self.agent, self.model, self.variant))
        return TrialKey._make((*words, self.repetition))

    @property
    def agent_usage(self) -> Usage:
        """What the agent took."""
        return read_usage(self.usage) if self.usage else NO_USAGE

    @property
    def judge_usage(self) -> Usage:
        """What the judges took."""
        return read_usage(self.judging) if self.judging else NO_USAGE


_read = msgspec.json.Decoder(JournalNews).decode  # most of a line is passed over


class JournalTail:
    """Reads what has been added to the journals of a run's folder, those of workers that come later too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[str, int] = {}

    def news(self) -> Iterator[tuple[str, JournalNews]]:
        """Give each new line with the name of the process that wrote it: ``main``, or an xdist worker's.

        A line that is written half is given when it is whole; one that nobody can read is left out.
        """
        for name in sorted(os.listdir(self._folder)):
            match = JOURNAL.fullmatch(name)
            if match is not None:
                for raw in self._new_lines(name):
                    try:
                        yield match["worker"], _read(raw)
                    except (ValueError, msgspec.DecodeError):  # before 0.21 theirs is none of Python's
                        continue

    def _new_lines(self, name: str) -> list[bytes]:
        path, offset = self._folder / name, self._offsets.get(name, 0)
        if path.stat().st_size == offset:
            return []
        with path.open("rb") as journal:
            journal.seek(offset)
            whole, newline, _ = journal.read(MOST_READ).rpartition(b"\n")
        self._offsets[name] = offset + len(whole) + len(newline)
        return whole.split(b"\n") if newline else []

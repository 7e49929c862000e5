"""What the trials of a run have paid so far, of all their attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import NO_USAGE, Usage
from pytest_agenteval.store.journal_tail import NOTHING_USED, UsageNews


class _Line(FrozenValue, frozen=True, gc=False):
    """A journal's line as far as it says what was paid."""

    kind: str
    model: str = ""
    usage: UsageNews = NOTHING_USED
    judging: UsageNews = NOTHING_USED
    simulating: UsageNews = NOTHING_USED
    paid: UsageNews | None = None


_DECODER = msgspec.json.Decoder(_Line)  # most of a line is passed over


def paid_so_far(folder: Path, offline: Collection[str] = ()) -> Usage:
    """Add up what all finished attempts in a run's folder have paid.

    What models said for nothing that are ``offline``, by name, is paid to nobody.
    """
    lines = (line for file in sorted(folder.glob("journal-*.jsonl")) for line in _lines(file))
    return sum((_paid(line, offline) for line in lines if line.kind == "finished"), NO_USAGE)


def _paid(line: _Line, offline: Collection[str]) -> Usage:
    if line.paid is not None:
        return line.paid.usage
    others = line.judging.usage + line.simulating.usage
    is_free = line.model in offline and line.usage.cost_usd == 0
    return others if is_free else line.usage.usage + others


def _lines(file: Path) -> Iterator[_Line]:
    with file.open("rb") as journal:
        for raw in journal:
            try:
                yield _DECODER.decode(raw)
            except (ValueError, msgspec.DecodeError):  # a torn line, which the run's report tells
                continue

"""What a trial changed in its workspace: per file, in rows that stand side by side or below each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pytest_agenteval.records.evidence import FileText, Outcome, Tree
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.trial.alignment import Alignment

CONTEXT = 3
"""Equal lines around a change."""

LARGE = 256 * 1024
"""Characters from which on a file's lines are not compared: that takes seconds, and nobody reads it."""

MOST_ROWS = 2000
MOST_FILES = 200

Tag = Literal[" ", "~", "-", "+"]
Row = tuple[Tag, str | None, str | None]
"""A line of both sides: equal, changed, only old, only new; None where a side has none."""


class Hunk(FrozenValue, frozen=True):
    """Changed lines with some equal ones around; the starts are line numbers that count from 1."""

    old_start: int
    new_start: int
    rows: tuple[Row, ...]


class FileChange(FrozenValue, frozen=True):
    """One file that came, changed or went; ``note`` says why there are no lines, or not all."""

    path: str
    change: Literal["created", "modified", "deleted"]
    note: str = ""
    hunks: tuple[Hunk, ...] = ()


def file_changes(outcome: Outcome) -> Iterator[FileChange]:
    """Give the first ``MOST_FILES`` files that differ: created, then modified, then deleted ones."""
    diff = outcome.diff
    paths = [
        *((path, "created") for path in diff.created),
        *((path, "modified") for path in diff.modified),
        *((path, "deleted") for path in diff.deleted),
    ]
    for path, change in paths[:MOST_FILES]:
        note, hunks = _hunks(outcome.before, outcome.after, path)
        yield FileChange(path, change, note, hunks)  # type: ignore[arg-type]  # pairs of three literals


def _hunks(before: Tree, after: Tree, path: str) -> tuple[str, tuple[Hunk, ...]]:
    sides = [tree.files[path] for tree in (before, after) if path in tree]
    for side in sides:
        if side.text is None:
            return f"{side.why or 'no text'}, {side.size:,} bytes", ()
        if len(side.text) > LARGE:
            return f"too large to compare: {side.size:,} bytes", ()
    old, new = (_lines(tree.files.get(path)) for tree in (before, after))
    hunks = tuple(hunks_of_lines(old, new))
    if not hunks:
        return ("empty" if len(sides) == 1 else "only the ends of lines differ"), ()
    return _cut(hunks)


def _lines(file: FileText | None) -> list[str]:
    return (file.text or "").splitlines() if file else []


def hunks_of_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """Give where two texts differ, line by line, with some equal lines around."""
    for group in Alignment(old, new).get_grouped_opcodes(CONTEXT):
        rows = [row for _, *span in group for row in _rows(old, new, *span)]
        yield Hunk(group[0][1] + 1, group[0][3] + 1, tuple(rows))


def _rows(
    old: Sequence[str], new: Sequence[str], old_low: int, old_high: int, new_low: int, new_high: int
) -> Iterator[Row]:
    for at in range(max(old_high - old_low, new_high - new_low)):
        before = old[old_low + at] if old_low + at < old_high else None
        after = new[new_low + at] if new_low + at < new_high else None
        yield _tag(before, after), before, after


def _tag(before: str | None, after: str | None) -> Tag:
    if before is None:
        return "+"
    if after is None:
        return "-"
    return " " if before == after else "~"


def _cut(hunks: tuple[Hunk, ...]) -> tuple[str, tuple[Hunk, ...]]:
    """Leave out what comes after ``MOST_ROWS`` rows, and say how many there are."""
    rows, whole = 0, sum(len(hunk.rows) for hunk in hunks)
    if whole <= MOST_ROWS:
        return "", hunks
    first = []
    for hunk in hunks:
        first.append(Hunk(hunk.old_start, hunk.new_start, hunk.rows[: MOST_ROWS - rows]))
        rows += len(hunk.rows)
        if rows >= MOST_ROWS:
            break
    return f"the first {MOST_ROWS:,} of {whole:,} lines", tuple(first)

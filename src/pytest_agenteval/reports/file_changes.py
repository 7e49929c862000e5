"""What a trial changed in its workspace: per file, in rows that stand side by side or below each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from pytest_agenteval.records.evidence import FileText, Outcome, Tree
from pytest_agenteval.records.record import FrozenValue

CONTEXT = 3
"""Equal lines around a change."""

LARGE = 256 * 1024
"""Characters from which on a file's lines are not compared: that takes seconds, and nobody reads it."""

MOST_FILES = 200

Change = Literal["created", "modified", "deleted"]
Tag = Literal[" ", "~", "-", "+"]
Row = tuple[Tag, str | None, str | None]
"""A line of both sides: equal, changed, only old, only new; None where a side has none."""


class Hunk(FrozenValue, frozen=True):
    """Changed lines with some equal ones around; the starts are line numbers that count from 1."""

    old_start: int
    new_start: int
    rows: tuple[Row, ...]


class FileChange(FrozenValue, frozen=True):
    """One file that came, changed or went; ``note`` says why there are no lines."""

    path: str
    change: Change
    note: str = ""
    hunks: tuple[Hunk, ...] = ()


def file_changes(outcome: Outcome) -> Iterator[FileChange]:
    """Give the first ``MOST_FILES`` files that differ: created, then modified, then deleted ones."""
    diff = outcome.diff
    changes: dict[Change, Sequence[str]] = {
        "created": diff.created,
        "modified": diff.modified,
        "deleted": diff.deleted,
    }
    pairs = [(path, change) for change, paths in changes.items() for path in paths]
    for path, change in pairs[:MOST_FILES]:
        note, hunks = _hunks(outcome.before, outcome.after, path)
        yield FileChange(path, change, note, hunks)


def _hunks(before: Tree, after: Tree, path: str) -> tuple[str, tuple[Hunk, ...]]:
    sides = [tree.files[path] for tree in (before, after) if path in tree]
    # One side that is no text, or too large, is enough: half a diff would show the other as all new.
    for side in sides:
        if side.text is None:
            return f"{side.why or 'no text'}, {side.size:,} bytes", ()
        if len(side.text) > LARGE:
            return f"too large to compare: {side.size:,} bytes", ()
    old, new = (_lines(tree.files.get(path)) for tree in (before, after))
    hunks = tuple(hunks_of_lines(old, new))
    # Lines are compared without their line breaks, so two files may differ in nothing but these.
    if not hunks:
        return ("empty" if len(sides) == 1 else "only the ends of lines differ"), ()
    return "", hunks


def _lines(file: FileText | None) -> list[str]:
    return (file.text or "").splitlines() if file else []


def hunks_of_lines(old: Sequence[str], new: Sequence[str]) -> Iterator[Hunk]:
    """Give where two texts differ, line by line, with ``CONTEXT`` equal lines around."""
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT):
        rows: list[Row] = []
        for _, old_low, old_high, new_low, new_high in group:
            # Lines of a replaced stretch are paired in order, for views that show both sides side by side.
            for before, after in zip_longest(old[old_low:old_high], new[new_low:new_high]):
                tag: Tag = (
                    " " if before == after else "+" if before is None else "-" if after is None else "~"
                )
                rows.append((tag, before, after))
        yield Hunk(group[0][1] + 1, group[0][3] + 1, tuple(rows))

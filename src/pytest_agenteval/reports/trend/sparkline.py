"""Scores as one character each, on a scale from 0 to 1 that is the same in every line."""

from __future__ import annotations

from collections.abc import Collection, Sequence

LEVELS = "▁▂▃▅▇"
"""Fifths of the scale: 1.00 belongs to the highest."""

TENTHS = "0123456789"
GAP, ASCII_GAP = "·", "."
BREAK = "|"

LEGEND = "▁ below 0.20, ▂ below 0.40, ▃ below 0.60, ▅ below 0.80, ▇ from there on; · not tried"
ASCII_LEGEND = "a digit is a score in tenths: 0 below 0.10, 9 from 0.90 on; . not tried"


def sparkline(scores: Sequence[float | None], ascii_only: bool, breaks: Collection[int] = ()) -> str:
    """Draw scores, 0 to 1, one character each; None is a gap, and before each of ``breaks`` stands a bar."""
    levels, gap = (TENTHS, ASCII_GAP) if ascii_only else (LEVELS, GAP)
    marks = [gap if score is None else levels[_step(score, len(levels))] for score in scores]
    return with_breaks(marks, breaks)


def with_breaks(marks: Sequence[str], breaks: Collection[int]) -> str:
    """Write one mark after the other, with a bar before each whose index is in ``breaks``."""
    return "".join(f"{BREAK}{mark}" if at in breaks else mark for at, mark in enumerate(marks))


def _step(score: float, steps: int) -> int:
    """Give the step of the scale; what rounding took from a score on a border is given back."""
    return min(max(int(score * steps + 1e-9), 0), steps - 1)


def gap_mark(ascii_only: bool) -> str:
    """Give the character that stands where there is no score."""
    return ASCII_GAP if ascii_only else GAP

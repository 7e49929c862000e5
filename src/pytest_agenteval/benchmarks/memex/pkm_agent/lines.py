"""The lines of a file, counted alike by every tool."""

from __future__ import annotations

MOST_LETTERS = 2000
"""A longer line is cut where it is shown."""


def lines_of(text: str) -> list[str]:
    """Give the lines of a text without their ends; the end of the last one begins no further line."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def cut(line: str) -> str:
    """Cut a line that is too long to be shown, and say so."""
    more = len(line) - MOST_LETTERS
    return line if more <= 0 else f"{line[:MOST_LETTERS]}… ({more} more characters)"


def counted(count: int, noun: str = "line", plural: str = "s") -> str:
    """Say how many there are of something."""
    return f"{count} {noun}{'' if count == 1 else plural}"

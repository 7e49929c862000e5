"""The line of a terminal that is being written: how many columns of it are taken."""

from __future__ import annotations

import re

from pytest_agenteval.text.formatting import cell_width

_WITHOUT_WIDTH = re.compile(r"\x1b\[[0-9;]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Colours, and what is told to the terminal itself, such as its title."""

_MOVES_CURSOR = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class CurrentLine:
    """Follows what is written to a terminal.

    ``is_known`` is False from where nobody can tell the column until the line ends: something moves the
    cursor within the line, as ``\\r`` does, or a wide letter may have been put on the next row. A terminal
    whose size nobody has set, such as one of a container, has 0 ``columns``.
    """

    def __init__(self, column: int) -> None:
        self._column = column
        self.is_known = True

    def is_left_by(self, text: str, columns: int) -> bool:
        """Whether the cursor leaves its row, or nobody knows where it is, when this is written."""
        if "\n" in text:
            return True
        width = _width(text)
        return width is None or columns < 1 or width >= columns - self._column % columns

    def take(self, text: str, columns: int) -> None:
        """Note what is written."""
        _, newline, rest = text.rpartition("\n")
        if newline:
            self._column, self.is_known = 0, True
        width = _width(rest)
        may_jump = not rest.isascii() and self.is_left_by(rest, columns)
        self.is_known = self.is_known and width is not None and not may_jump
        self._column += width or 0

    def has_room(self, columns: int) -> bool:
        """Whether the cursor stands within a row, and not behind its last column, where terminals differ."""
        return self.is_known and columns > 0 and (self._column == 0 or self._column % columns != 0)


def _width(text: str) -> int | None:
    """Give the columns that a text within a line takes; None where it moves the cursor elsewhere."""
    if text.isascii() and text.isprintable():
        return len(text)
    plain = _WITHOUT_WIDTH.sub("", text)
    return None if _MOVES_CURSOR.search(plain) else cell_width(plain)

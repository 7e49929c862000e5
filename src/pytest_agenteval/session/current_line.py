"""The line of a terminal that is being written: how many columns of it are taken."""

from __future__ import annotations

import re

from pytest_agenteval.reports.text_width import cell_width

_WITHOUT_WIDTH = re.compile(r"\x1b\[[0-9;]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Colours, and what is told to the terminal itself, such as its title."""

_MOVES_CURSOR = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class CurrentLine:
    """Follows what is written to a terminal.

    ``is_known`` is False from where something moves the cursor within the line, as ``\\r`` does, until the
    line ends.
    """

    def __init__(self, column: int) -> None:
        self._column = column
        self.is_known = True

    def is_left_by(self, text: str, columns: int) -> bool:
        """Whether the cursor leaves its line, or nobody knows where it is, when this is written."""
        if "\n" in text:
            return True
        plain = _WITHOUT_WIDTH.sub("", text) if "\x1b" in text else text
        room = columns - self._column % columns
        return _MOVES_CURSOR.search(plain) is not None or cell_width(plain) >= room

    def take(self, text: str) -> None:
        """Note what is written."""
        _, newline, rest = text.rpartition("\n")
        if newline:
            self._column, self.is_known = 0, True
        plain = _WITHOUT_WIDTH.sub("", rest) if "\x1b" in rest else rest
        self.is_known = self.is_known and _MOVES_CURSOR.search(plain) is None
        self._column += cell_width(plain)

    def has_room(self, columns: int) -> bool:
        """Whether the cursor stands within a row, and not behind its last column, where terminals differ."""
        return self.is_known and (self._column == 0 or self._column % columns != 0)

"""Text in columns, where not every character is one column wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

JOINER = "\u200d"
EMOJI_STYLE = "\ufe0f"
CUT = "…"
HANGING = 2


def cell_width(text: str) -> int:
    """Count the terminal columns that a text takes: Hangul and emoji take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(widths(text))


def widths(text: str) -> list[int]:
    """Give the columns of each character; what is joined to the character before it has none."""
    found: list[int] = []
    before = ""
    for char in text:
        if char == EMOJI_STYLE and found and found[-1] == 1:
            found[-1] = 2
        found.append(0 if before == JOINER else _width(char))
        before = char
    return found


def fit(text: str, most: int) -> str:
    """Cut out of a text's middle until it takes at most ``most`` columns: its ends tell it from others."""
    if cell_width(text) <= most:
        return text
    if most < 1:
        return ""
    left = (most - 1) // 2
    head = cut(text, left)
    return head + CUT + cut(text[::-1], most - 1 - cell_width(head))[::-1]


def cut(text: str, most: int) -> str:
    """Give the longest beginning that takes at most ``most`` columns."""
    taken = 0
    for place, width in enumerate(widths(text)):
        taken += width
        if taken > most:
            return text[:place]
    return text


def pad(text: str, width: int, right: bool = False) -> str:
    """Fill a text with spaces to a width, before it or after it."""
    space = " " * (width - cell_width(text))
    return space + text if right else text + space


def wrap(text: str, width: int) -> list[str]:
    """Break a line at spaces into lines of at most ``width`` columns, the later ones hung below the first."""
    if cell_width(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()) + HANGING)
    lines, words = [], text.split(" ")
    line = words.pop(0)
    for word in words:
        if line.strip() and cell_width(line) + 1 + cell_width(word) > width:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}"
    return [*lines, line]


def aligned(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """Put rows of equal length into columns: the first to the left, all others to the right."""
    wide = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    first, *others = wide
    return [
        (" " * gap).join(
            [pad(row[0], first), *(pad(*cell, right=True) for cell in zip(row[1:], others, strict=True))]
        )
        for row in rows
    ]


def _width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    if "\u1160" <= char <= "\u11ff":  # vowels and finals of decomposed Hangul, as macOS writes file names
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1

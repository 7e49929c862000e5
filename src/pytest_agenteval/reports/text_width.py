"""Text in columns, where not every character is one column wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

Style = Literal["", "bold", "dim", "red", "yellow", "green", "cyan"]
INDENT = "  "
NARROWEST, WIDEST = 30, 200
"""Columns of the narrowest and of the widest terminal that lines are made for."""

JOINER = "\u200d"
EMOJI_STYLE = "\ufe0f"
CUT = "…"
HANGING = 2
BETWEEN = "   "
"""Between texts that stand side by side and are no columns."""


class StyledLine(NamedTuple):
    """One line of text, and how the whole of it looks."""

    text: str
    style: Style = ""


def clamp_width(width: int) -> int:
    """Give the width for which lines are made: that of the terminal, 30 to 200 columns."""
    return max(NARROWEST, min(width, WIDEST))


def wrapped_lines(text: str, width: int, style: Style = "", indent: str = INDENT) -> list[StyledLine]:
    """Break a text at spaces into indented lines of one look; see ``wrap``."""
    return [StyledLine(piece, style) for piece in wrap(indent + text, width)]


def cell_width(text: str) -> int:
    """Count the terminal columns that a text takes: Hangul and emoji take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(char_widths(text))


def char_widths(text: str) -> list[int]:
    """Give the columns of each character; what is joined to the character before it has none."""
    widths: list[int] = []
    before = ""
    for char in text:
        if char == EMOJI_STYLE and widths and widths[-1] == 1 and not before.isspace():
            widths[-1] = 2
        widths.append(0 if before == JOINER and not char.isascii() else _width(char))
        before = char
    return widths


def shorten_middle(text: str, most: int) -> str:
    """Cut out of a text's middle until it takes at most ``most`` columns: its ends tell it from others."""
    if cell_width(text) <= most:
        return text
    if most < 1:
        return ""
    left = (most - 1) // 2
    head = truncate(text, left)
    tail = truncate(text[::-1], most - 1 - cell_width(head))[::-1]
    return truncate(head + CUT + tail, most)  # what is joined is sometimes wider when it stands alone


def truncate(text: str, most: int) -> str:
    """Give the longest beginning that takes at most ``most`` columns."""
    columns = 0
    for place, width in enumerate(char_widths(text)):
        columns += width
        if columns > most:
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
    body = text.lstrip(" ")
    line = text[: len(text) - len(body)]
    hung = line + " " * HANGING
    lines = []
    for piece in _pieces(body, max(width - len(hung), 2)):
        if not line.strip(" "):
            line += piece
        elif cell_width(line) + 1 + cell_width(piece) <= width:
            line = f"{line} {piece}"
        else:
            lines.append(line.rstrip(" "))
            line = hung + piece
    return [*lines, line]


def flow(texts: Iterable[str], width: int, indent: str = "") -> Iterator[str]:
    """Put texts side by side where they fit, empty ones left out."""
    line = ""
    for text in filter(None, texts):
        longer = f"{line}{BETWEEN}{text}" if line else indent + text
        if line and cell_width(longer) > width:
            yield from wrap(line, width)
            longer = indent + text
        line = longer
    if line:
        yield from wrap(line, width)


def align_columns(rows: Sequence[Sequence[str]], gap: int = 2) -> list[str]:
    """Put rows of equal length into columns: the first to the left, all others to the right."""
    wide = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    first, *others = wide
    return [
        (" " * gap).join(
            [pad(row[0], first), *(pad(*cell, right=True) for cell in zip(row[1:], others, strict=True))]
        )
        for row in rows
    ]


def _pieces(text: str, most: int) -> Iterator[str]:
    """Give the words of a text; one that is too long for any line comes in pieces."""
    for word in text.split(" "):
        rest = word
        while cell_width(rest) > most:
            head = truncate(rest, most)
            yield head
            rest = rest[len(head) :]
        yield rest


def _width(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    if "\u1160" <= char <= "\u11ff":  # vowels and finals of decomposed Hangul, as macOS writes file names
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1

"""How figures, names and foreign text are written everywhere, and how lines are fitted into a terminal.

A runner of GitHub Actions acts upon lines of output that begin with ``::``, white space aside, or that have
``##[`` anywhere. An agent could set outputs, mask words of the log or stop the commands of a step by what it
answers. So this module also writes our own commands, and takes the meaning out of all others.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

_COMMAND = re.compile(r"((?:\A|[\r\n])\s*)::")
_OLD_COMMAND = "##["
_IN_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_IN_PROPERTY = {**_IN_DATA, ":": "%3A", ",": "%2C"}


def in_actions() -> bool:
    """Whether a runner of GitHub Actions reads what is printed."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def workflow_command(name: str, message: str, **properties: str | int | None) -> str:
    """Write a command on one line: ``::warning file=evals/a.yaml,line=7::…``; what is empty is left out."""
    pairs = ",".join(
        f"{key}={_escaped(str(value), _IN_PROPERTY)}" for key, value in properties.items() if value
    )
    return f"::{name}{' ' if pairs else ''}{pairs}::{_escaped(message, _IN_DATA)}"


def without_commands(text: str) -> str:
    r"""Give foreign text in which a runner finds no command: it begins with ``:\u003a`` or has ``##\u005b``.

    JSON keeps its meaning: no line of it begins with a colon, and a bracket in a text may be escaped.
    """
    if "::" in text:
        text = _COMMAND.sub(r"\1:\\u003a", text)
    return text.replace(_OLD_COMMAND, r"##\u005b")


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


NOT_KNOWN = "-"
MOST_NAME = 200
MOST_MOMENT = 40
MOST_TEXT = 300  # characters of a foreign text in Markdown

_MARKUP = re.compile(r"([\\`*_{}\[\]|~#$!])")

# What GitHub links in the text that is shown: accounts, mail addresses, issues, bare addresses.
_LINKED = re.compile(
    r"(?<!\w)@(?=\w)|(?<=\w)@(?=[\w-]+\.\w)|#(?=\w)|\bGH-(?=\d)|:(?=//)|\bwww\.(?=\S)", re.IGNORECASE
)
NO_LINK = "\u200b"  # a space without width, which keeps GitHub from linking what it stands in

# Controls, escapes and what turns the writing direction: an agent's answer must not paint the terminal.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_SPACE = re.compile(r"\s+")


def printable(text: str) -> str:
    """Write out control characters, keeping newlines and tabs: what is left can neither act nor break XML.

    >>> printable("\\x1b[31m \\u202e")
    '\\\\x1b[31m \\\\u202e'
    """
    return _UNSAFE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, most: int) -> str:
    """Put a text on one line of at most ``most`` characters; a cut is shown."""
    line = printable(_SPACE.sub(" ", text[: 4 * most]).strip())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"


def escape_markdown(text: str, most: int = MOST_TEXT, *, links: bool = False) -> str:
    """Put foreign text on one line, cut after ``most``, in which Markdown and HTML find nothing to act on.

    It mentions nobody and links nothing, wherever it is pasted on GitHub. With ``links``, which is for texts
    that an author wrote, addresses are linked.
    """
    line = _LINKED.sub(rf"\g<0>{NO_LINK}", one_line(text, most))
    line = line.replace(f":{NO_LINK}//", "://") if links else line
    return _MARKUP.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def code_span(text: str, most: int = MOST_TEXT) -> str:
    """Put foreign text into a code span of Markdown, in which nothing of it acts."""
    # A backtick would end the span, and an empty span is no span.
    return f"`{one_line(text, most).replace('`', chr(39)) or ' '}`"


def format_figure(value: float | None) -> str:
    """Write a figure with two digits; none is rounded up to 1.00, or down to 0.00."""
    if value is None:
        return NOT_KNOWN
    if value < -1e-9:
        return f"-{format_figure(-value)}" if value > -0.005 else f"{value:.2f}"
    if 0.995 <= value < 1 - 1e-9:
        return "0.99"
    return "0.01" if 1e-9 < value < 0.005 else f"{value:.2f}"


def format_ends(low: float, high: float) -> str:
    """Write the ends of an interval, as ``format_interval`` does."""
    between = ".." if low < 0 else "-"
    lower = "0.00" if 0 <= low < 0.005 else format_figure(low)
    upper = "1.00" if 0.995 <= high <= 1 else format_figure(high)
    return f"{lower}{between}{upper}"


def format_duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_moment(text: str) -> str:
    """Write a moment of ISO 8601 in local time, to the minute; any other text stays as it is."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return one_line(text, MOST_MOMENT)


def ending_word(ending: str, score: float | None) -> str:
    """Write how a trial ended as pytest shows it: ``MISSED 0.40``, ``ERROR``."""
    return "ERROR" if ending == "errored" else f"{ending.upper()} {format_figure(score)}"


def pluralize(number: int, thing: str) -> str:
    """Write a number of things: ``1 trial``, ``2 trials``."""
    return f"{number:,} {thing if number == 1 else plural(thing)}"


def plural(thing: str) -> str:
    """Write the name of several things: ``trials``, ``replies``, ``misses``."""
    return f"{thing[:-1]}ies" if thing[-1] == "y" else f"{thing}{'es' if thing[-1] == 's' else 's'}"


def first_few(texts: Sequence[object], most: int, more: str = "and {} more") -> list[str]:
    """Give the first texts and, as the last one, how many more there are."""
    left = len(texts) - most
    return [*map(str, texts[:most]), *([more.format(left)] if left > 0 else [])]


def few_names(names: Sequence[object], most: int, more: str = " and {} more") -> str:
    """Write the first names on one line: ``a, b and 3 more``."""
    first = first_few(names, most, more)
    return ", ".join(first[:most]) + "".join(first[most:])


def tally(counts: Mapping[str, int]) -> str:
    """Write counts by name, most first: ``3 provider, 1 fixture``."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number} {one_line(name, MOST_NAME) or 'unnamed'}" for name, number in ordered)


def model_label(model: str, variant: str) -> str:
    """Write a model with its variant: ``claude@short``."""
    return f"{model}@{variant}" if variant else model


Style = Literal["", "bold", "dim", "red", "yellow", "green", "cyan"]
INDENT = "  "
NARROWEST, WIDEST = 30, 200  # columns of the narrowest and of the widest terminal that lines are made for

JOINER = "\u200d"
EMOJI_STYLE = "\ufe0f"
CUT = "…"
HANGING = 2
BETWEEN = "   "  # between texts that stand side by side and are no columns


class Span(NamedTuple):
    """A part of a line, by the places of its characters, and how it looks."""

    start: int
    end: int
    style: Style


class StyledLine(NamedTuple):
    """One line of text, how it looks, and how parts of it look that differ from the rest, in their order."""

    text: str
    style: Style = ""
    spans: tuple[Span, ...] = ()


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
    """Cut out the middle of a text, so that it takes at most ``most`` columns and its ends stay distinct."""
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


def cut(text: str, most: int) -> str:
    """Cut a text to at most ``most`` columns; a cut is shown."""
    return text if cell_width(text) <= most else truncate(text, max(0, most - 1)) + CUT


def pad(text: str, width: int, right: bool = False) -> str:
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


def wrap_styled(
    pieces: Iterable[tuple[str, Style]], width: int | None, indent: str = ""
) -> Iterator[StyledLine]:
    """Break pieces of text, which stand one after the other and have looks of their own, into lines.

    A newline ends a line. Lines longer than ``width`` are broken, at a blank where there is one.
    """
    text, spans = "", list[Span]()
    for piece, style in pieces:
        for number, part in enumerate(piece.split("\n")):
            if number:
                yield from _broken(text, spans, width, indent)
                text, spans = "", []
            if style and part:
                spans.append(Span(len(text), len(text) + len(part), style))
            text += part
    if text:
        yield from _broken(text, spans, width, indent)


def _broken(text: str, spans: Sequence[Span], width: int | None, indent: str) -> Iterator[StyledLine]:
    room = len(text) + 1 if width is None else max(2, width - cell_width(indent))
    start = 0
    while True:
        rest = text[start:]
        # Hardly a line has more characters than columns, and measuring all of the rest takes time.
        head = rest if width is None else truncate(rest[: 2 * room], room)
        end = len(head)
        if end < len(rest):
            # The blank at which a line is broken belongs to neither line.
            end = head.rfind(" ", len(head) // 2) + 1 or end
        shift = len(indent) - start
        parts = ((max(span.start, start), min(span.end, start + end), span.style) for span in spans)
        own = tuple(Span(low + shift, high + shift, style) for low, high, style in parts if low < high)
        yield StyledLine(f"{indent}{rest[:end]}".rstrip(" ") if not own else f"{indent}{rest[:end]}", "", own)
        start += end
        if start >= len(text):
            return


def flow(texts: Iterable[str], width: int, indent: str = "", between: str = BETWEEN) -> Iterator[str]:
    """Put texts side by side where they fit, empty ones left out."""
    line = ""
    for text in filter(None, texts):
        longer = f"{line}{between}{text}" if line else indent + text
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

"""Where values stand in a text, and edits of the text that leave all else of it as it is.

A span counts characters, from 0; what it ends before is no part of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_NEWLINE = re.compile(r"\r\n|\n|\r")
_REST_OF_LINE = re.compile(r"[ \t]*(,?)[ \t]*(?:#[^\r\n]*)?(?=[\r\n])")
_COMMA = re.compile(r"(?:\s|#[^\r\n]*)*,")


class TextSpan(NamedTuple):
    """Where a value stands; ``is_flow`` of a list or map in brackets or braces, whose ``parts`` these are."""

    start: int
    end: int
    parts: tuple[SpanPart, ...] = ()
    is_flow: bool = False

    def part(self, name: str) -> TextSpan | None:
        """Give the span of a map's value by its key."""
        return next((part.value for part in self.parts if part.name == name), None)


class SpanPart(NamedTuple):
    """A key or an index, where the key or the item begins, and where its value stands."""

    name: str | int
    start: int
    value: TextSpan

    @property
    def end(self) -> int:
        """Where its value ends."""
        return self.value.end


def insert_at_end(text: str, container: TextSpan, flow: str, block: Sequence[str]) -> str:
    """Put one more part behind the last one of a list or map.

    ``flow`` is how it is written within brackets, ``block`` are its lines elsewhere, without what a list's
    items and a map's keys are preceded by.
    """
    if not container.is_flow:
        return _insert_lines(text, container, block)
    if not container.parts:
        bracket = re.compile(r"[\[{]").search(text, container.start)
        at = bracket.end() if bracket else container.end
        return f"{text[:at]}{flow}{text[at:]}"
    last = container.parts[-1]
    rest = _REST_OF_LINE.match(text, last.end)
    if rest is None or not _begins_line(text, container, last):
        return f"{text[: last.end]}, {flow}{text[last.end :]}"
    comma, indent = rest[1], text[_line_start(text, last.start) : last.start]
    before = f"{text[: last.end]}{'' if comma else ','}{rest[0]}"
    return f"{before}{newline_of(text)}{indent}{flow}{comma}{text[rest.end() :]}"


def insert_before(text: str, container: TextSpan, block: Sequence[str]) -> str:
    """Put lines before the first part of a map that is in no braces."""
    at = _line_start(text, container.parts[0].start)
    newline = newline_of(text)
    return f"{text[:at]}{newline.join(block)}{newline}{text[at:]}"


def remove_part(text: str, container: TextSpan, index: int) -> str:
    """Take a part out of a list or map of several, with the lines that hold nothing else."""
    part = container.parts[index]
    if not container.is_flow:
        return _remove_lines(text, part)
    rest = _REST_OF_LINE.match(text, part.end)
    if rest is not None and _begins_line(text, container, part):
        return _remove_flow_line(text, container, index, rest)
    if index:
        return text[: container.parts[index - 1].end] + text[part.end :]
    return text[: part.start] + text[container.parts[1].start :]


def newline_of(text: str) -> str:
    """Give how the lines of a text end, by the first of them."""
    first = _NEWLINE.search(text)
    return first[0] if first else "\n"


def _insert_lines(text: str, container: TextSpan, block: Sequence[str]) -> str:
    start = container.parts[-1].start
    prefix = text[_line_start(text, start) : start]
    newline, at = newline_of(text), _lines_end(text, container.end)
    lines = newline.join(f"{prefix}{line}" for line in block)
    if at == len(text) and not text.endswith(("\r", "\n")):
        return f"{text}{newline}{lines}"
    return f"{text[:at]}{lines}{newline}{text[at:]}"


def _remove_lines(text: str, part: SpanPart) -> str:
    start, end = _line_start(text, part.start), _lines_end(text, part.end)
    before = text[:start]
    if end == len(text) and not text.endswith(("\r", "\n")):
        before = before.removesuffix(newline_of(text))
    return before + text[end:]


def _remove_flow_line(text: str, container: TextSpan, index: int, rest: re.Match[str]) -> str:
    part = container.parts[index]
    start, end = _line_start(text, part.start), _lines_end(text, rest.end())
    before = text[:start]
    if index and index == len(container.parts) - 1 and not rest[1]:
        comma = _COMMA.match(text, container.parts[index - 1].end)
        if comma:
            before = text[: comma.end() - 1] + text[comma.end() : start]
    return before + text[end:]


def _begins_line(text: str, container: TextSpan, part: SpanPart) -> bool:
    """Whether a part is the first on its line, below the line on which the container begins."""
    start = _line_start(text, part.start)
    return start > container.start and text[start : part.start].isspace()


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _lines_end(text: str, at: int) -> int:
    """Give where the line ends in which something ends; a text of several lines may end where one begins."""
    if at and text[at - 1] in "\r\n":
        return at
    newline = _NEWLINE.search(text, at)
    return newline.end() if newline else len(text)

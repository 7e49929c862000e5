"""Where values stand in the text of a file, and how lines are put in or taken out without other changes."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isinf
from typing import NamedTuple

from pytest_agenteval.text.errors import KeyPath, Problem

_NEWLINE = re.compile(r"\r\n|\n|\r")
_REST_OF_LINE = re.compile(r"[ \t]*(,?)[ \t]*(?:#[^\r\n]*)?(?=[\r\n])")


class TextSpan(NamedTuple):
    """Where a value is; ``is_flow`` means a list or map in brackets or braces, with these ``parts``."""

    start: int
    end: int
    parts: tuple[SpanPart, ...] = ()
    is_flow: bool = False

    def part(self, name: str) -> TextSpan | None:
        return next((part.value for part in self.parts if part.name == name), None)


class SpanPart(NamedTuple):
    """A key or an index, where the key or the item begins, and where its value stands."""

    name: str | int
    start: int
    value: TextSpan

    @property
    def end(self) -> int:
        return self.value.end


def insert_at_end(text: str, container: TextSpan, flow: str, block: Sequence[str]) -> str:
    """Put one more part behind the last one of a list or map.

    ``flow`` is how the part is written within brackets. ``block`` are its lines elsewhere, without the
    indentation and without the dash of a list.
    """
    if not container.is_flow:
        start = container.parts[-1].start
        # The indentation and, in a list, the dash.
        prefix = text[_line_start(text, start) : start]
        newline, at = newline_of(text), _lines_end(text, container.end)
        lines = newline.join(f"{prefix}{line}" for line in block)
        if at == len(text) and not text.endswith(("\r", "\n")):
            return f"{text}{newline}{lines}"
        return f"{text[:at]}{lines}{newline}{text[at:]}"
    if not container.parts:
        bracket = re.compile(r"[\[{]").search(text, container.start)
        at = bracket.end() if bracket else container.end
        return f"{text[:at]}{flow}{text[at:]}"
    last = container.parts[-1]
    rest = _REST_OF_LINE.match(text, last.end)
    # The parts are side by side on one line; else each of them has its own.
    if rest is None or not _begins_line(text, container, last):
        return f"{text[: last.end]}, {flow}{text[last.end :]}"
    comma, indent = rest[1], text[_line_start(text, last.start) : last.start]
    before = f"{text[: last.end]}{'' if comma else ','}{rest[0]}"
    return f"{before}{newline_of(text)}{indent}{flow}{comma}{text[rest.end() :]}"


def insert_before(text: str, container: TextSpan, block: Sequence[str]) -> str:
    """Put lines before the first part of a map without braces."""
    at = _line_start(text, container.parts[0].start)
    newline = newline_of(text)
    return f"{text[:at]}{newline.join(block)}{newline}{text[at:]}"


def remove_part(text: str, container: TextSpan, index: int) -> str:
    """Take one of several parts out of a list or map, with the lines that hold nothing else."""
    part = container.parts[index]
    if not container.is_flow:
        start, end = _line_start(text, part.start), _lines_end(text, part.end)
        before = text[:start]
        if end == len(text) and not text.endswith(("\r", "\n")):
            # The last line of the file had no line end: then the one before it gets none either.
            before = before.removesuffix(newline_of(text))
        return before + text[end:]
    rest = _REST_OF_LINE.match(text, part.end)
    if rest is not None and _begins_line(text, container, part):
        start, end = _line_start(text, part.start), _lines_end(text, rest.end())
        before = text[:start]
        if index and index == len(container.parts) - 1 and not rest[1]:
            # The comma behind the part before goes too: JSON has none after the last part.
            comma = re.compile(r"(?:\s|#[^\r\n]*)*,").match(text, container.parts[index - 1].end)
            if comma:
                before = text[: comma.end() - 1] + text[comma.end() : start]
        return before + text[end:]
    if index:
        return text[: container.parts[index - 1].end] + text[part.end :]
    return text[: part.start] + text[container.parts[1].start :]


def newline_of(text: str) -> str:
    """Give the line end of a text, which is that of its first line."""
    first = _NEWLINE.search(text)
    return first[0] if first else "\n"


def _begins_line(text: str, container: TextSpan, part: SpanPart) -> bool:
    """Whether a part is the first on its line, below the line on which the container begins."""
    start = _line_start(text, part.start)
    return start > container.start and text[start : part.start].isspace()


def _line_start(text: str, at: int) -> int:
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def _lines_end(text: str, at: int) -> int:
    """Give the end of the line in which something ends, line end included.

    A block text of several lines ends where the next line begins: then it is that place itself.
    """
    if at and text[at - 1] in "\r\n":
        return at
    newline = _NEWLINE.search(text, at)
    return newline.end() if newline else len(text)


# Enough for a text that has been read as JSON before: it has nothing to refuse.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(slots=True)
class JsonLocation:
    """A value's line (its key's line, inside a map) and the places of what it holds."""

    line: int
    path: KeyPath = ()
    children: dict[str | int, JsonLocation] = field(default_factory=dict)

    def line_of(self, path: KeyPath) -> int:
        """Give the line on which the key stands, or that of its nearest parent that exists."""
        place = self
        for step in path:
            if step not in place.children:
                break
            place = place.children[step]
        return place.line


def locate_values(text: str) -> JsonLocation:
    """Find every value of a JSON text that is known to be well formed."""
    return _Scan(text).root


def json_problems(text: str, file: str) -> list[Problem]:
    """List the repeated keys and unusable numbers of a JSON text, in reading order."""
    return [Problem(file, *problem) for problem in _Scan(text).problems]


def json_span(text: str) -> TextSpan:
    """Give the spans of a JSON text that is known to be well formed, and of all that it holds."""
    return _span(deque(_TOKEN.finditer(text)))


def _span(tokens: deque[re.Match[str]]) -> TextSpan:
    first = tokens.popleft()
    if first[0] not in "{[":
        return TextSpan(first.start(), first.end())
    parts: list[SpanPart] = []
    while tokens[0][0] not in "}]":
        if tokens[0][0] == ",":
            tokens.popleft()
        name, start = (json.loads(tokens[0][0]) if first[0] == "{" else len(parts)), tokens[0].start()
        if first[0] == "{":
            tokens.popleft(), tokens.popleft()  # the key and its colon
        parts.append(SpanPart(name, start, _span(tokens)))
    return TextSpan(first.start(), tokens.popleft().end(), tuple(parts), is_flow=True)


class _Scan:
    """One walk over the tokens; the open containers lie on a stack, so that depth costs nothing."""

    def __init__(self, text: str) -> None:
        self.root = JsonLocation(1)
        self.problems: list[tuple[int, KeyPath, str, str]] = []
        self._open: list[tuple[JsonLocation, bool]] = []
        self._key: tuple[str, int] | None = None
        for token, line in _tokens(text):
            self._take(token, line)

    def _take(self, token: str, line: int) -> None:
        if token in ",:":
            return
        if token in "}]":
            self._open.pop()
        elif self._open and self._open[-1][1] and self._key is None:
            # Within a map, what has no key before it is a key.
            self._key = (json.loads(token), line)
        else:
            place = self._put(line)
            if token in "{[":
                self._open.append((place, token == "{"))
            elif token[0] != '"':
                self._check_number(token, line, place)

    def _put(self, line: int) -> JsonLocation:
        if not self._open:
            self.root.line = line
            return self.root
        parent, is_map = self._open[-1]
        step: str | int = len(parent.children)
        if is_map and self._key is not None:
            step, line = self._key
            self._key = None
            if step in parent.children:
                first = parent.children[step].line
                found = f"{step!r} a second time (first on line {first})"
                self.problems.append((line, (*parent.path, step), "each key only once", found))
        place = parent.children[step] = JsonLocation(line, (*parent.path, step))
        return place

    def _check_number(self, token: str, line: int, place: JsonLocation) -> None:
        is_constant = token in ("NaN", "Infinity", "-Infinity")
        if is_constant or (token[0] in "-0123456789" and isinf(float(token))):
            self.problems.append((line, place.path, "a number that JSON knows", token))


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, seen = 1, 0
    for match in _TOKEN.finditer(text):
        # Counted from the last token on: from the beginning of the text it would take quadratic time.
        line += text.count("\n", seen, match.start())
        seen = match.start()
        yield match.group(), line

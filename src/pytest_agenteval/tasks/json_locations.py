"""Where things stand in a JSON text: lines, spans, repeated keys and numbers that JSON does not know.

Used only when a problem has to be shown or a text is edited; the values themselves come from :mod:`json`.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isinf

from pytest_agenteval.tasks.text_spans import SpanPart, TextSpan
from pytest_agenteval.text.errors import KeyPath, Problem

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_NOT_JSON = {"NaN", "Infinity", "-Infinity"}


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
    """Say where a JSON text that is known to be well formed, and all in it stands."""
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
    """One walk over the tokens; the open containers are kept on a stack, so that depth costs nothing."""

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
        if token in _NOT_JSON or (token[0] in "-0123456789" and isinf(float(token))):
            self.problems.append((line, place.path, "a number that JSON knows", token))


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line, seen = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", seen, match.start())
        seen = match.start()
        yield match.group(), line

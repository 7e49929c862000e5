"""Where values stand in the text of a JSON file, and what is wrong there that Python's reader accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isinf

from pytest_agenteval.text.errors import KeyPath, Problem

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

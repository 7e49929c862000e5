"""Paths into JSON values, as authors write them: ``tags[0]``, ``author.name``, ``days."2026.09"``.

A step is a key or, in brackets, a place in a list: from 0, or from -1 counted from the end. A key that holds
a dot, a bracket, a quote or a space at its ends stands in quotes, as JSON writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final

from pytest_agenteval.text.errors import KeyPath

_BARE = r'[^\s."\[\]](?:[^."\[\]\x00-\x1f]*[^\s."\[\]])?'
_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\.)*"'
_INDEX = r"\[(?:0|-?[1-9][0-9]{0,8})\]"
_BARE_KEY = re.compile(_BARE)
_STEP = re.compile(rf"(?P<dot>\.?)(?:(?P<bare>{_BARE})|(?P<quoted>{_QUOTED}))|(?P<index>{_INDEX})")
# What stands in brackets and is no number, as in items[*].name, is no step of any kind.
_LOOSE_STEP = re.compile(r"([^.\[\]]+)(?![^\[]*\])|\[([0-9]+)\]")


class Missing(Enum):
    """Says that there is no value, which no JSON value can say."""

    ABSENT = "nothing"


ABSENT: Final = Missing.ABSENT
"""What ``value_at`` gives where nothing stands at the path."""


class PathError(ValueError):
    """Raised for a text that is no path; ``rest`` is the part from where it cannot be read."""

    def __init__(self, text: str, rest: str) -> None:
        super().__init__(f"{text!r} cannot be read from {rest!r} on" if text else "an empty text is no path")
        self.rest = rest


def parse_path(text: str) -> KeyPath:
    """Read a path strictly; raises PathError, also for an empty text."""
    steps: list[str | int] = []
    end = 0
    while end < len(text):
        match = _STEP.match(text, end)
        step = None if match is None else _read_step(match, first=not end)
        if match is None or step is None:
            break
        steps.append(step)
        end = match.end()
    if not steps or end < len(text):
        raise PathError(text, text[end:])
    return tuple(steps)


def loose_path(text: str) -> KeyPath:
    """Read a path that others wrote: keys, and places such as ``[0]``; whatever else is passed over.

    An empty text is the path of the whole value.
    """
    return tuple(key or int(place) for key, place in _LOOSE_STEP.findall(text))


def format_path(path: Iterable[str | int]) -> str:
    """Write a path so that ``parse_path`` reads it back."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = step if _BARE_KEY.fullmatch(step) else json.dumps(step)
            text += f".{key}" if text else key
    return text


def value_at(value: Any, path: KeyPath) -> Any:
    """Give what stands at a path, or ABSENT."""
    for step in path:
        value = _below(value, step)
    return value


def _read_step(match: re.Match[str], *, first: bool) -> str | int | None:
    """Give one step; a key has a dot before it unless it comes first."""
    if match["index"] is not None:
        return int(match["index"][1:-1])
    if bool(match["dot"]) is first:
        return None
    if match["bare"] is not None:
        return match["bare"]
    try:
        key: str = json.loads(match["quoted"])
    except ValueError:
        return None
    return key


def _below(value: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return value.get(step, ABSENT) if isinstance(value, Mapping) else ABSENT
    if isinstance(value, list | tuple) and -len(value) <= step < len(value):
        return value[step]
    return ABSENT

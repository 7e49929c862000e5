"""Reading what a tool was called with, arguments and paths; what is wrong is said to the agent.

The tools check their own arguments: a null is as good as nothing, and a complaint names the argument, what
it must be and what it was, without repeating a long value. All paths start at the root of the knowledge base.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval import ToolFailed
from pytest_agenteval.benchmarks.memex.journal.entries import describe_value
from pytest_agenteval.text.errors import did_you_mean

MOST_LEVELS = 64
"""Nobody files that deep; a tree without end could no longer be walked."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DRIVE = re.compile(r"[A-Za-z]:(?:/|$)")


def parts_of(path: str) -> tuple[str, ...]:
    """Give the names that lead from the root to a path; none for the root itself.

    A path may start with ``/`` or not; ``.`` and doubled slashes mean nothing, and ``..`` goes up. Names are
    kept letter by letter as they are written: no Unicode form is made of another, so a composed and a
    decomposed ``é`` are two names, as they are on the disk.

    Raises ToolFailed for what can be no path of the knowledge base.
    """
    if path.startswith("~") or "/~/" in path or path.endswith("/~"):
        raise bad_path(path, "~ means no folder here")
    if "\\" in path or _DRIVE.match(path):
        raise bad_path(path, "names are parted by /, and there are no drives")
    if _CONTROL.search(path):
        raise bad_path(path, "a name must not hold control characters")
    parts = _resolve(path)
    if len(parts) > MOST_LEVELS:
        raise bad_path(path, f"a path has at most {MOST_LEVELS} levels")
    return tuple(parts)


def format_path(parts: tuple[str, ...]) -> str:
    """Write a path as the agent is shown it.

    A name on the disk that no agent could write, since it is not UTF-8 or holds a control character, is shown
    with a question mark in its place: a list of paths has one on each line.
    """
    path = "/" + "/".join(parts)
    return _CONTROL.sub("?", path.encode("utf-8", "replace").decode("utf-8"))


def bad_path(path: str, why: str) -> ToolFailed:
    """Make the error for a path that is refused."""
    short_path = format_path((path[:80],))[1:]
    message = (
        f"no path in the knowledge base: {short_path!r}: {why}; write it from the root, like /Areas/Bread.md"
    )
    return ToolFailed(message, "outside")


def _resolve(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise bad_path(path, ".. leads out of the root")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts


ROOT = "/"


def bad_argument(message: str) -> ToolFailed:
    """Make the error that tells an agent which argument to mend."""
    return ToolFailed(message, "bad_arguments")


def text(args: Mapping[str, Any], name: str) -> str:
    """Read a text that must be given and may be empty."""
    value = args.get(name)
    if not isinstance(value, str):
        raise bad_argument(f"{name} must be a text, not {_describe(value)}")
    return _writable(name, value)


def required_text(args: Mapping[str, Any], name: str) -> str:
    """Read a text that must say something."""
    value = text(args, name)
    if not value.strip():
        raise bad_argument(f"{name} must not be empty")
    return value


def folder_path(args: Mapping[str, Any], name: str) -> str:
    """Read a path that need not be given: the root, then."""
    return ROOT if args.get(name) in (None, "") else text(args, name)


def optional_text(args: Mapping[str, Any], name: str) -> str | None:
    """Read a text that need not be given; an empty one is none."""
    return None if args.get(name) in (None, "") else text(args, name)


def texts(args: Mapping[str, Any], name: str) -> list[str]:
    """Read a list of texts that need not be given; a text by itself is a list of one."""
    value = args.get(name)
    listed = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(text, str) for text in listed):
        raise bad_argument(f"{name} must be a list of texts, not {_describe(value)}")
    return [_writable(name, text) for text in listed]


def number(args: Mapping[str, Any], name: str, least: int) -> int | None:
    """Read a whole number that need not be given."""
    value = args.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise bad_argument(f"{name} must be a whole number from {least}, not {_describe(value)}")
    return value


def flag(args: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """Read a yes or no that need not be given."""
    value = args.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise bad_argument(f"{name} must be true or false, not {_describe(value)}")
    return value


def choice(args: Mapping[str, Any], name: str, choices: Sequence[str]) -> str | None:
    """Read a word out of a few, which need not be given."""
    value = optional_text(args, name)
    if value is None or value in choices:
        return value
    hint = did_you_mean(value, choices)
    raise bad_argument("; ".join(filter(None, (f"{name} must be one of {', '.join(choices)}", hint))))


def _describe(value: Any) -> str:
    return "nothing" if value is None else describe_value(value)


def _writable(name: str, value: str) -> str:
    """Refuse half a character, which JSON can write and no file can hold."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise bad_argument(f"{name} holds half a character (a lone surrogate); leave it out") from None
    return value

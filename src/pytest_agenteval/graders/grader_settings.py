"""The settings of graders, read as a task file has them, and values written in one line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pytest_agenteval.text.errors import KeyPath, key_path_text
from pytest_agenteval.text.formatting import printable
from pytest_agenteval.text.json_values import PathError, normal_text, parse_path, plain_json
from pytest_agenteval.text.patterns import Pattern, author_pattern

MAX_CHARS = 200


def cut(text: str, most: int = MAX_CHARS) -> str:
    """Shorten a text to at most so many characters, the ellipsis included."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def brief(value: Any) -> str:
    """Write a JSON value in one short line; texts stand in quotes, and everything else is JSON."""
    if isinstance(value, str):
        return repr(cut(value))
    try:
        return cut(json.dumps(value, ensure_ascii=False, default=plain_json))
    # A setting given in Python may be of a type that JSON lacks, or hold itself: then its repr is shown.
    except (TypeError, ValueError):
        return cut(repr(value))


def quoted_pattern(pattern: str) -> str:
    r"""Write a regular expression in quotes as its author wrote it: ``'\d+ won'`` has one backslash."""
    quote = '"' if "'" in pattern else "'"
    line = printable(cut(pattern)).replace("\n", r"\n").replace("\t", r"\t")
    return f"{quote}{line}{quote}"


class WrongSetting(ValueError):
    """A setting is invalid: its place, what was expected and found."""

    def __init__(self, path: KeyPath, expected: str, found: str, hint: str = "") -> None:
        self.path, self.expected, self.found, self.hint = path, expected, found, hint
        message = f"{key_path_text(path)}: expected {expected}, found {found}"
        super().__init__(f"{message}; {hint}" if hint else message)


def texts(name: str, given: Sequence[str], *, least: int = 1) -> tuple[str, ...]:
    """Check a list of texts, none of them blank, and return it as a tuple."""
    if not isinstance(given, list | tuple):
        raise WrongSetting((name,), "a list of texts", brief(given))
    if len(given) < least:
        raise WrongSetting((name,), "at least one text", "an empty list")
    for place, text in enumerate(given):
        text_at((name, place), text)
    return tuple(given)


def text_at(path: KeyPath, given: str) -> str:
    """Return the text as it is; raises WrongSetting where it is blank or no text."""
    if not isinstance(given, str) or not given.strip():
        raise WrongSetting(path, "a text that is not blank", brief(given))
    return given


def paths(name: str, given: Sequence[str], *, least: int = 1) -> tuple[str, ...]:
    """Check a list of paths or globs, each relative to the workspace, and return it as a tuple."""
    return tuple(path_at((name, place), path) for place, path in enumerate(texts(name, given, least=least)))


def path_at(place: KeyPath, given: str) -> str:
    """Check a path or glob of files, relative to the workspace's root; a folder and ``..`` are refused."""
    path = text_at(place, given)
    if path.startswith("/") or {"", ".", ".."} & set(path.removesuffix("/").split("/")):
        raise WrongSetting(place, "a path from the workspace's root, as in notes/today.md", brief(path))
    # A slash at the end means a folder, and graders look at files only.
    if path.endswith("/"):
        raise WrongSetting(place, "files", brief(path), f"the files of a folder are {path + '**'!r}")
    return path


def patterns(name: str, given: Sequence[str]) -> tuple[str, ...]:
    expressions = texts(name, given)
    for place, pattern in enumerate(expressions):
        pattern_at((name, place), pattern)
    return expressions


def pattern_at(path: KeyPath, given: str, flags: int = 0) -> Pattern:
    """Compile a regular expression; the error for a broken one gives the position of the mistake."""
    try:
        return author_pattern(text_at(path, given), flags)
    # Besides its own error, re raises RecursionError for
    # deep nesting and OverflowError for a huge repetition.
    except (re.error, RecursionError, OverflowError) as error:
        raise WrongSetting(path, "a regular expression", f"{brief(given)}: {error}") from None


def count_at(path: KeyPath, given: int, *, least: int) -> int:
    # A bool is an int in Python, and `true` in a task file is no count.
    if not isinstance(given, int) or isinstance(given, bool) or given < least:
        raise WrongSetting(path, f"a whole number, {least} or more", brief(given))
    return given


def value_path_at(place: KeyPath, text: str) -> KeyPath:
    """Parse a path into a value; ``place`` is where the setting stands that holds the path."""
    try:
        # Documents are searched with their keys in normal form, so the path has to be in it, too.
        return parse_path(normal_text(text))
    except PathError as error:
        rest = f"{brief(text)}, which cannot be read from {brief(error.rest)} on" if text else "an empty text"
        raise WrongSetting(place, 'a path like author.name, tags[0] or "odd.key"[-1]', rest) from None

"""Files that authors write, read as JSON or YAML with their lines; and which of them are tasks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from math import isinf
from pathlib import Path
from typing import Any, NoReturn, Protocol

from pytest_agenteval.tasks.file_names import is_calibration_name
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.text.json_values import JSON, compact_json

_SURROGATE = re.compile(r"\\(?:u|U0000)[dD][89abAB]")
# What stands before `id` is looked at behind it: a pattern that begins with letters is searched for by these.
_MENTIONED_ID = re.compile(r"""id(?<![^\s{,"'-]id)["']?[ \t]*:\s*["']?([^\s"'\\/:\[\]{},#]+)""")


class LineIndex(Protocol):
    """Knows the line of every key of a document."""

    def line_of(self, path: KeyPath) -> int:
        """Give the line on which the key stands, or that of its nearest parent that exists."""
        ...


class ParsedDocument:
    """A file's value, and its lines for whoever asks."""

    def __init__(self, path: Path, text: str, value: JSON) -> None:
        self.path, self.text, self.value = path, text, value

    def line_of(self, path: KeyPath) -> int:
        """Give the line on which the key stands, or that of its nearest parent that exists."""
        return self._places.line_of(path)

    @cached_property
    def _places(self) -> LineIndex:
        if is_json(self.path):
            from pytest_agenteval.tasks.source_spans import locate_values

            return locate_values(self.text)
        from pytest_agenteval.tasks.yaml_reading import YamlLineIndex

        return YamlLineIndex(self.text)


def is_json(path: Path) -> bool:
    """Tell JSON files from YAML files, by their names."""
    return path.suffix.lower() == ".json"


def short_path(path: Path) -> str:
    """Write a path as a terminal can jump to it: from the current folder where it lies below it."""
    return _below(str(path), os.getcwd())


def path_in_root(path: Path, root: Path) -> str:
    """Write a path from pytest's rootdir, with ``/``: the same wherever a run is started."""
    text = _below(str(path), str(root))
    if not os.path.isabs(text):
        return text
    try:
        return os.path.relpath(path, root).replace(os.sep, "/")
    except ValueError:  # another drive of Windows
        return path.as_posix()


# Texts, not paths: this is asked several times for every file of a tree, and paths are slow.
@lru_cache(maxsize=16)
def _below(text: str, here: str) -> str:
    here = here.rstrip(os.sep) + os.sep
    return text[len(here) :].replace(os.sep, "/") if text.startswith(here) else text


def read_document(path: Path) -> ParsedDocument:
    """Read a file, or raise every problem that reading it shows."""
    return parse_document(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Give the bytes of a file that its author can read."""
    try:
        return path.read_bytes()
    except OSError as error:
        _refuse(short_path(path), None, "a file that can be read", error.strerror or str(error))


def parse_document(path: Path, data: bytes) -> ParsedDocument:
    """Read the bytes of a file; its name says whether they are JSON or YAML."""
    file = short_path(path)
    text = _decode(data, file)
    try:
        value = _read_json(text, file) if is_json(path) else _read_yaml(text, file)
        if _SURROGATE.search(
            text
        ):  # JSON's escapes can spell half a character, which no file of ours could hold
            compact_json(value).encode()
    except RecursionError:
        _refuse(file, None, "lists and maps not nested too deeply", "more levels than can be read")
    except UnicodeEncodeError:
        _refuse(file, None, "text that UTF-8 can hold", "half of a surrogate pair, escaped")
    return ParsedDocument(path, text, value)


def lines_of_ids(document: ParsedDocument) -> tuple[int, ...]:
    """Give the line of each task's ``id``, for a document that holds one task or a list of them.

    One pass of a pattern is enough where it finds these ids in this order and nothing else;
    otherwise the document is read again with its lines.
    """
    value = document.value
    tasks: Sequence[Any] = value if isinstance(value, list) else [value]
    ids = [task.get("id") if isinstance(task, dict) else None for task in tasks]
    wanted_ids = set(filter(None, (id for id in ids if isinstance(id, str))))
    hits = [match for match in _MENTIONED_ID.finditer(document.text) if match[1] in wanted_ids]
    if [match[1] for match in hits] == ids:
        positions = [match.start() for match in hits]
        lines, line, seen = [], 1, 0
        for position in positions:
            line += document.text.count("\n", seen, position)
            seen = position
            lines.append(line)
        return tuple(lines)
    paths: list[KeyPath] = [(index, "id") for index in range(len(ids))] if tasks is value else [("id",)]
    return tuple(map(document.line_of, paths))


def _decode(data: bytes, file: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _refuse(
            file, line, "a text in UTF-8", f"the byte 0x{data[error.start]:02x}", "save the file as UTF-8"
        )
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _read_yaml(text: str, file: str) -> JSON:
    from pytest_agenteval.tasks.yaml_reading import read_yaml

    return read_yaml(text, file)


class _Unusable(ValueError):
    """Well formed, but not something JSON should say."""


def _read_json(text: str, file: str) -> JSON:
    try:
        return _STRICT_JSON(text)
    except json.JSONDecodeError as error:
        _refuse(file, error.lineno, "a JSON document", _reason(error, text), _way_out(error, text))
    except _Unusable:
        from pytest_agenteval.tasks.source_spans import json_problems

        raise ProblemsFound(json_problems(text, file)) from None
    except ValueError:
        _refuse(file, None, "numbers of at most 4300 digits", "a longer one")


def _reason(error: json.JSONDecodeError, text: str) -> str:
    rest = text[error.pos : error.pos + 20].split("\n")[0]
    return f"{error.msg}, at {rest!r}" if rest else f"{error.msg}, at the end of a line"


def _way_out(error: json.JSONDecodeError, text: str) -> str:
    """Give the hint for what people write who take JSON for JavaScript."""
    rest, before = text[error.pos :].lstrip(), text[: error.pos].rstrip()
    if rest.startswith("<<<<<<<"):
        return "a merge conflict: keep one of its two sides"
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments: take it out, or write the file in YAML"
    if (rest[:1] in ("}", "]") and before.endswith(",")) or error.msg.startswith("Illegal trailing comma"):
        return "no comma stands behind the last entry"
    return "JSON has texts in double quotes" if rest.startswith("'") else ""


def _unique_keys(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise _Unusable
    return mapping


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _Unusable
    return number


def _constant(text: str) -> NoReturn:
    raise _Unusable(text)


_STRICT_JSON: Callable[[str], JSON] = json.JSONDecoder(
    object_pairs_hook=_unique_keys, parse_float=_float, parse_constant=_constant
).decode


def _refuse(file: str, line: int | None, expected: str, found: str, hint: str = "") -> NoReturn:
    raise ProblemsFound([Problem(file, line, (), expected, found, hint)]) from None


_NEAR: Mapping[str, float] = {"id": 0.8, "input": 0.8, "graders": 0.75}
"""The keys by which a task is known, and how like one of them another key has to be to be taken for it."""

_STRING_OR_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")
_BLANK_YAML = re.compile(r"(?:[ \t]*(?:#.*|---|\.\.\.)?(?:\n|\Z))*")


# Searched for through re's own cache: most suites have no calibration, and never need the second.
_CALIBRATION = rb"""^["']?kind["']?[ \t]*:[ \t]*["']?calibration\b"""
_NEARLY_CALIBRATION = rb"^(?:labels?|rubrics?|kind[ \t]*:[ \t]*[\"']?calib\w*[\"']?)[ \t]*(?::|$)"


def is_task(value: object) -> bool:
    """Whether a value has the keys that every task has and that nothing else has together."""
    return isinstance(value, dict) and "id" in value and "graders" in value


def is_nearly_task(value: object) -> bool:
    """Whether a value is surely meant as a task: two of its keys, or nearly so, or ``graders`` itself."""
    if not isinstance(value, dict):
        return False
    return "graders" in value or len({word for key in value if (word := _nearest_task_key(key))}) > 1


def may_be_task(keys: Iterable[str]) -> bool:
    """Whether keys hold ``id`` or ``graders``, or nearly so: much data has an id, and so has a task."""
    return any(_nearest_task_key(key) in ("id", "graders") for key in keys)


def is_blank(text: str) -> bool:
    """Whether a text holds nothing but blank lines and YAML's comments."""
    return _BLANK_YAML.fullmatch(text) is not None


def top_level_keys(path: Path, data: bytes) -> Sequence[Iterable[str]] | None:
    """Give the keys of a file's map, or of each map of its list, however loosely it is written.

    What reading refuses (tags, merge keys, repeated keys, NaN, comments in JSON, several documents) is other
    people's to use; None for a file that is no JSON, or YAML, at all.
    """
    try:
        text = data.decode("utf-8-sig")
        return _of_json(_read_loose_json(text)) if is_json(path) else _of_yaml(text)
    except (ValueError, RecursionError):
        return None


def _read_loose_json(text: str) -> Any:
    """Read JSON, a JSON value in each line, or JSON with comments and last commas."""
    for read in (json.loads, _lines):
        with suppress(ValueError):
            return read(text)
    bare = _STRING_OR_COMMENT.sub(lambda match: match[1] or "", text)
    return json.loads(_LAST_COMMA.sub("", bare))


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def _of_json(value: Any) -> Sequence[Iterable[str]]:
    entries = value if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, dict)]


def _of_yaml(text: str) -> Sequence[Iterable[str]] | None:
    from pytest_agenteval.tasks import yaml_reading

    return yaml_reading.top_level_keys(text)


@lru_cache(maxsize=4096)
def _nearest_task_key(key: str) -> str:
    """Give the key of a task that this one is, or nearly is; else nothing."""
    from difflib import SequenceMatcher

    plain = key.strip().strip("_-").casefold()
    return next(
        (word for word, least in _NEAR.items() if SequenceMatcher(None, plain, word).ratio() >= least), ""
    )


def holds_calibration(path: Path) -> bool:
    """Whether a file is meant as a calibration: it says so, or its name and any of its keys nearly do."""
    if path.suffix.lower() not in (".yaml", ".yml"):
        return False
    try:
        data = path.read_bytes()
    except OSError:  # who collects it says what is wrong
        return False
    if re.search(_CALIBRATION, data, re.MULTILINE):
        return True
    return is_calibration_name(path) and re.search(_NEARLY_CALIBRATION, data, re.MULTILINE) is not None

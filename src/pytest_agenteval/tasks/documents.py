"""Files that authors write, read as JSON or YAML with their lines; and which of them may be tasks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from math import isinf
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_agenteval.tasks.file_names import SUITE_NAMES, is_calibration_name
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound
from pytest_agenteval.text.json_values import JSON, compact_json

if TYPE_CHECKING:
    from pytest_agenteval.tasks.source_spans import JsonLocation
    from pytest_agenteval.tasks.yaml_reading import YamlLineIndex

# Half of a surrogate pair, as JSON and YAML escape it.
_SURROGATE = re.compile(r"\\(?:u|U0000)[dD][89abAB]")
# The look-back comes behind `id`: a pattern that begins with letters is found faster.
_MENTIONED_ID = re.compile(r"""id(?<![^\s{,"'-]id)["']?[ \t]*:\s*["']?([^\s"'\\/:\[\]{},#]+)""")

_BETWEEN_WORDS = re.compile(r"[^\w-]+")
LONGEST_OWN_ID = 40  # characters of an id that is made of a task's input


class ParsedDocument:
    """A file's value, and the lines of its keys for code that needs them."""

    def __init__(self, path: Path, text: str, value: JSON) -> None:
        self.path, self.text, self.value = path, text, value

    def line_of(self, path: KeyPath) -> int:
        """Give the line on which the key stands, or that of its nearest parent that exists."""
        return self._places.line_of(path)

    @cached_property
    def _places(self) -> JsonLocation | YamlLineIndex:
        # Read once more, and only where a line is needed: the readers that know lines are slower.
        if is_json(self.path):
            from pytest_agenteval.tasks.source_spans import locate_values

            return locate_values(self.text)
        from pytest_agenteval.tasks.yaml_reading import YamlLineIndex

        return YamlLineIndex(self.text)


def is_json(path: Path) -> bool:
    """Whether a file's name is that of a JSON file; the others are YAML."""
    return path.suffix.lower() == ".json"


def short_path(path: Path) -> str:
    """Write a path so that a terminal can jump to it: from the current folder if it is below that."""
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


# Texts, not paths: this is called several times for every file of a tree, and paths are slow.
@lru_cache(maxsize=16)
def _below(text: str, here: str) -> str:
    here = here.rstrip(os.sep) + os.sep
    return text[len(here) :].replace(os.sep, "/") if text.startswith(here) else text


def read_document(path: Path) -> ParsedDocument:
    """Read a file, or raise every problem that reading it shows."""
    return parse_document(path, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Read a file; raises ProblemsFound where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        _refuse(short_path(path), None, "a file that can be read", error.strerror or str(error))


def parse_document(path: Path, data: bytes) -> ParsedDocument:
    """Read the bytes of a file; its name says whether they are JSON or YAML."""
    file = short_path(path)
    text = _decode(data, file)
    try:
        if is_json(path):
            value = read_json(text, file)
        else:
            from pytest_agenteval.tasks.yaml_reading import read_yaml

            value = read_yaml(text, file)
        # JSON's escapes can spell half a character, which no file of ours could hold.
        if _SURROGATE.search(text):
            compact_json(value).encode()
    except RecursionError:
        _refuse(file, None, "lists and maps not nested too deeply", "more levels than can be read")
    except UnicodeEncodeError:
        _refuse(file, None, "text that UTF-8 can hold", "half of a surrogate pair, escaped")
    return ParsedDocument(path, text, value)


def task_entries(document: ParsedDocument) -> list[tuple[KeyPath, JSON]]:
    """Give each task of a document and the path to it: one task, a list, or those that a suite's file holds.

    Entries of a suite's ``tasks`` that name rows are no tasks. Of the others, one without an ``id`` has the
    first words of its input as one.
    """
    value = document.value
    if isinstance(value, list):
        return [((index,), entry) for index, entry in enumerate(value)]
    if document.path.name not in SUITE_NAMES:
        return [((), value)]
    entries = value.get("tasks") if isinstance(value, dict) else None
    several = enumerate(entries) if isinstance(entries, list) else ()
    listed = (
        [(("tasks",), entries)]
        if isinstance(entries, dict) and is_no_map_of_tasks(entries)
        else [(("tasks", at), each) for at, each in several]
    )
    return [(at, with_id(each)) for at, each in listed if isinstance(each, dict) and "rows" not in each]


def is_no_map_of_tasks(tasks: Any) -> bool:
    """Whether ``tasks`` is no map whose keys are names of tasks, as other tools have it."""
    if not isinstance(tasks, Mapping) or not tasks:
        return True
    is_entry = not {"rows", "input", "graders", "id"}.isdisjoint(tasks)
    return is_entry or not all(isinstance(each, Mapping) for each in tasks.values())


def with_id(task: dict[str, Any]) -> dict[str, Any]:
    """Give a task with an id: its own, or the first words of its input; without either it stays as it is."""
    if "id" in task:
        return task
    given = task.get("input")
    if isinstance(given, dict):
        turns = given.get("turns")
        given = given.get("content") or (turns[0] if isinstance(turns, list) and turns else None)
    if isinstance(given, dict):  # a turn that says who speaks
        given = given.get("content")
    id = ""
    for word in _BETWEEN_WORDS.split(given.lower()) if isinstance(given, str) else ():
        if id and len(id) + len(word) >= LONGEST_OWN_ID:
            break
        id = f"{id}_{word}".strip("_")[:LONGEST_OWN_ID]
    return {"id": id, **task} if id else task


def lines_of_ids(document: ParsedDocument) -> tuple[int, ...]:
    """Give the line of the ``id`` of each of a document's tasks, or of a task without one.

    One pass of a pattern is enough where it finds these ids in this order and nothing else;
    otherwise the document is read again with its lines.
    """
    tasks = task_entries(document)
    ids = [task.get("id") if isinstance(task, dict) else None for _, task in tasks]
    wanted_ids = set(filter(None, (id for id in ids if isinstance(id, str))))
    hits = [match for match in _MENTIONED_ID.finditer(document.text) if match[1] in wanted_ids]
    if [match[1] for match in hits] == ids:
        lines, line, seen = [], 1, 0
        for position in (match.start() for match in hits):
            line += document.text.count("\n", seen, position)
            seen = position
            lines.append(line)
        return tuple(lines)
    return tuple(document.line_of((*path, "id")) for path, _ in tasks)


def _decode(data: bytes, file: str) -> str:
    """Read UTF-8 with or without a byte order mark; all lines end with ``\\n`` afterwards."""
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line, found = data.count(b"\n", 0, error.start) + 1, f"the byte 0x{data[error.start]:02x}"
        _refuse(file, line, "a text in UTF-8", found, "save the file as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


class NotJson(ValueError):
    """Raised for a number that JSON does not know, or for a key that appears twice."""


def read_json(text: str, file: str) -> JSON:
    """Read a JSON text strictly; raises ProblemsFound, each with its line, or RecursionError."""
    try:
        value: JSON = STRICT_JSON.decode(text)
        return value
    except json.JSONDecodeError as error:
        rest = text[error.pos : error.pos + 20].split("\n")[0]
        found = f"{error.msg}, at {rest!r}" if rest else f"{error.msg}, at the end of a line"
        _refuse(file, error.lineno, "a JSON document", found, _way_out(error, text))
    except NotJson:
        # The decoder stops at the first of them. This slower scan finds all, with their lines.
        from pytest_agenteval.tasks.source_spans import json_problems

        raise ProblemsFound(json_problems(text, file)) from None
    except ValueError:
        # Python refuses to read longer whole numbers.
        _refuse(file, None, "numbers of at most 4300 digits", "a longer one")


def _way_out(error: json.JSONDecodeError, text: str) -> str:
    """Give the hint for an author who writes JSON as if it were JavaScript."""
    rest, before = text[error.pos :].lstrip(), text[: error.pos].rstrip()
    if rest.startswith("<<<<<<<"):
        return "a merge conflict: keep one of its two sides"
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments: remove it, or write the file in YAML"
    if (rest[:1] in ("}", "]") and before.endswith(",")) or error.msg.startswith("Illegal trailing comma"):
        return "remove the comma after the last entry"
    return "JSON texts need double quotes" if rest.startswith("'") else ""


def _unique_keys(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    mapping = dict(pairs)
    # Python would take the last of two equal keys, and hide the first.
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise NotJson(f"the key {again!r} a second time")
    return mapping


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise NotJson(f"{text}, which no number can hold")
    return number


def _constant(text: str) -> NoReturn:
    raise NotJson(f"{text}, which JSON does not know")


STRICT_JSON = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_float=_float, parse_constant=_constant)


def _refuse(file: str, line: int | None, expected: str, found: str, hint: str = "") -> NoReturn:
    raise ProblemsFound([Problem(file, line, (), expected, found, hint)]) from None


# Keys that identify a task, and how similar a misspelt key must be to count as one of them.
_NEAR: Mapping[str, float] = {"id": 0.8, "input": 0.8, "graders": 0.75}

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

    Other people's files may have what reading refuses: tags, merge keys, repeated keys, NaN, comments in
    JSON, several documents. None for a file that is no JSON, or YAML, at all.
    """
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        if not is_json(path):
            from pytest_agenteval.tasks import yaml_reading

            return yaml_reading.top_level_keys(text)
        value = _read_loose_json(text)
    except (ValueError, RecursionError):
        return None
    entries = value if isinstance(value, list) else [value]
    return [entry for entry in entries if isinstance(entry, dict)]


def _read_loose_json(text: str) -> Any:
    """Read JSON, a JSON value in each line, or JSON with comments and trailing commas."""
    with suppress(ValueError):
        return json.loads(text)
    with suppress(ValueError):
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    bare = _STRING_OR_COMMENT.sub(lambda match: match[1] or "", text)
    return json.loads(_LAST_COMMA.sub("", bare))


@lru_cache(maxsize=4096)
def _nearest_task_key(key: str) -> str:
    """Give the key of a task that this one is, or nearly is; empty if it is like none."""
    from difflib import SequenceMatcher

    plain = key.strip().strip("_-").casefold()
    likeness = ((word, least, SequenceMatcher(None, plain, word).ratio()) for word, least in _NEAR.items())
    return next((word for word, least, ratio in likeness if ratio >= least), "")


def holds_calibration(path: Path) -> bool:
    """Whether a file is meant as a calibration.

    It has the line ``kind: calibration``, or both its name and one of its keys come near a calibration's.
    """
    if path.suffix.lower() not in (".yaml", ".yml"):
        return False
    try:
        data = path.read_bytes()
    # The problem is reported where the file is collected.
    except OSError:
        return False
    if re.search(_CALIBRATION, data, re.MULTILINE):
        return True
    return is_calibration_name(path) and re.search(_NEARLY_CALIBRATION, data, re.MULTILINE) is not None

"""Whether a value is a task, is meant as one, or is somebody's data; and which files are calibrations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_agenteval.tasks.documents import is_json
from pytest_agenteval.tasks.file_names import is_calibration_name

_NEAR: Mapping[str, float] = {"id": 0.8, "input": 0.8, "graders": 0.75}
"""The keys by which a task is known, and how like one of them another key has to be to be taken for it."""

_STRING_OR_COMMENT = re.compile(r"""("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")
_NOTHING_SAID = re.compile(r"(?:[ \t]*(?:#.*|---|\.\.\.)?(?:\n|\Z))*")


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
    return _NOTHING_SAID.fullmatch(text) is not None


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

"""Reads other people's files: what cannot be read is a problem with its line, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_agenteval.errors import Problem, ProblemsFound


def read_json(path: Path) -> Any:
    """Read a JSON file; raises ProblemsFound with the line where it breaks."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as broken:
        raise ProblemsFound([not_json(path, broken)]) from None


def read_text(path: Path) -> str:
    """Read a UTF-8 text; raises ProblemsFound where it is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as broken:
        line = path.read_bytes().count(b"\n", 0, broken.start) + 1
        raise ProblemsFound([Problem(str(path), line, (), "text in UTF-8", str(broken))]) from None
    except OSError as refused:
        found = refused.strerror or str(refused)
        raise ProblemsFound([Problem(str(path), None, (), "a file that can be read", found)]) from None


def not_json(path: Path, broken: Exception, line: int | None = None) -> Problem:
    """Say where a file stops being JSON."""
    return Problem(str(path), line or getattr(broken, "lineno", None), (), "JSON", str(broken))


def read_all(paths: Iterable[Path]) -> Iterator[tuple[Path, Any]]:
    """Read many JSON files; raises ProblemsFound with the problems of all of them after the last."""
    problems: list[Problem] = []
    for path in paths:
        try:
            yield path, read_json(path)
        except ProblemsFound as broken:
            problems += broken.problems
    if problems:
        raise ProblemsFound(problems)


def misshapen(path: Path, expected: str, found: object, *key: str | int, hint: str = "") -> ProblemsFound:
    """Make the error for JSON that is not what it should be; the key says where."""
    return ProblemsFound([Problem(str(path), None, key, expected, _short(found), hint)])


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:79]}…"

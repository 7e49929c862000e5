"""The package's own source, as the tests of how it is written read it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "pytest_agenteval"
MODULES = sorted(SOURCE.rglob("*.py"))

_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n(]*)|import ([^\n(]*))", re.MULTILINE)


@cache
def text(path: Path) -> str:
    """Read a file of the package once."""
    return path.read_text(encoding="utf-8")


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a module once; parsing the whole package takes seconds, so a test looks at its text first."""
    return ast.parse(text(path))


def place(path: Path) -> str:
    """Name a file from the package's folder, with slashes."""
    return path.relative_to(SOURCE).as_posix()


def imports(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give every module that a source imports, with the names taken from it, wherever the statement stands.

    Imports in code that stands in a text, for another process, are among them.
    """
    for match in _IMPORT.finditer(source):
        listed = re.sub("#.*", "", match[2] or match[3]).strip("()").split(",")
        names = tuple(name.split()[0] for name in listed if name.strip())
        yield from [(match[1], names)] if match[1] else [(name, ()) for name in names]


def lines_with(pattern: str, paths: list[Path]) -> list[str]:
    """Give the lines of these files in which a pattern is found, each with its place; it crosses no line."""
    search = re.compile(pattern)
    return [
        f"{place(path)}:{number}: {line.strip()}"
        for path in paths
        if search.search(text(path))
        for number, line in enumerate(text(path).splitlines(), 1)
        if search.search(line)
    ]

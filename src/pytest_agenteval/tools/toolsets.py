"""Sets of tools: those that somebody registered, and those in files of a suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from pytest_agenteval.tasks.documents import read_document, short_path
from pytest_agenteval.text.errors import Problem, ProblemsFound, nearest
from pytest_agenteval.tools.tool import Tool

Stamps: TypeAlias = "tuple[tuple[Path, int], ...]"

_KINDS = "the name of a registered set, or a .yaml, .json or .py file"

NONE: Mapping[str, Sequence[Path]] = MappingProxyType({})


def load_tools(
    entry: str,
    folder: Path | None = None,
    root: Path | None = None,
    *,
    toolsets: Mapping[str, Sequence[Path]] = NONE,
) -> dict[str, Tool]:
    """Give the tools of an entry of a suite's ``tools``: a registered set, or a file.

    A relative path is looked up in the suite's ``folder``, then in the ``root``. A file holds declarations of
    HTTP tools, or names operations of an OpenAPI document, or is Python. Raises ProblemsFound.
    """
    if entry in toolsets:
        return {name: tool for file in toolsets[entry] for name, tool in tools_of_file(file).items()}
    return tools_of_file(_find_file(entry, folder, root, toolsets))


def tools_of_file(path: Path) -> dict[str, Tool]:
    """Give the tools of a file, read again where it or what it names has changed; raises ProblemsFound."""
    cached = _loaded.get(path)
    if cached is None or cached[0] != _stamps(file for file, _ in cached[0]):
        tools, files = _read(path)
        cached = _loaded[path] = (_stamps(files), tools)
    return dict(cached[1])


def files_of_tools(path: Path) -> tuple[Path, ...]:
    """Give all files that were read for the tools of a file that was loaded: an OpenAPI document too."""
    cached = _loaded.get(path)
    return tuple(file for file, _ in cached[0]) if cached else (path,)


# For the life of the process: a Python file is not run again for each trial, and its tools stay the same
# ones.
_loaded: dict[Path, tuple[Stamps, dict[str, Tool]]] = {}


def _find_file(
    entry: str, folder: Path | None, root: Path | None, toolsets: Mapping[str, Sequence[Path]]
) -> Path:
    places = [place for place in (folder, root) if place is not None] or [Path()]
    for place in places:
        if (place / entry).is_file():
            return (place / entry).absolute()
    looked = " and ".join(dict.fromkeys(short_path(place / entry) for place in places))
    hint = nearest(entry, toolsets)
    raise ProblemsFound([Problem(entry, None, (), _KINDS, f"neither; looked for {looked}", hint)])


def _stamps(files: Iterable[Path]) -> Stamps:
    return tuple((file, file.stat().st_mtime_ns if file.exists() else 0) for file in files)


def _read(path: Path) -> tuple[dict[str, Tool], tuple[Path, ...]]:
    """Give the tools of a file, and all files that were read for them."""
    if path.suffix == ".py":
        from pytest_agenteval.tools.functions import python_tools

        return python_tools(path), (path,)
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise ProblemsFound(
            [Problem(short_path(path), None, (), _KINDS, f"a {path.suffix or 'nameless'} file")]
        )
    document = read_document(path)
    if isinstance(document.value, dict) and "openapi" in document.value:
        from pytest_agenteval.tools.openapi.reading import openapi_tools

        return openapi_tools(document)
    from pytest_agenteval.tools.http.http_tool import tools_of

    return tools_of(document), (path,)

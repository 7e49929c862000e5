"""Sets of tools: those that come with the package, and those in files of a suite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

from pytest_agenteval.errors import Problem, ProblemsFound, UsageMistake, nearest
from pytest_agenteval.tasks.documents import read_document, shown
from pytest_agenteval.tools.http.http_tool import read_tools, tools_of
from pytest_agenteval.tools.tool import Tool

Stamps: TypeAlias = "tuple[tuple[Path, int], ...]"

_HERE = Path(__file__).parent.parent / "benchmarks"
_KINDS = "the name of a packaged set, or a .yaml, .json or .py file"

PACKAGED: Mapping[str, tuple[str, ...]] = {
    "ko_agentbench": (
        "naver_maps",
        "ls",
        "kis",
        "bithumb",
        "upbit",
        "naver",
        "daum",
        "aladin",
        "kakao",
        "tmap",
    )
}
"""The packaged sets, and their files in the order of the catalogue."""


def packaged(name: str, *, bases: Mapping[str, str] | None = None) -> dict[str, Tool]:
    """Give the tools of a packaged set, in the order of its catalogue; raises UsageMistake for another name.

    ``bases`` gives other addresses to ask, by provider: for tests and proxies.
    """
    if name not in PACKAGED:
        hint = nearest(name, PACKAGED)
        known = f"known: {', '.join(PACKAGED)}"
        raise UsageMistake("; ".join(filter(None, (f"unknown set of tools {name!r}", known, hint))))
    return dict(_packaged(name, tuple(sorted((bases or {}).items()))))


@cache
def _packaged(name: str, bases: tuple[tuple[str, str], ...]) -> dict[str, Tool]:
    return {
        tool.spec.name: tool
        for file in PACKAGED[name]
        for tool in read_tools(_HERE / name / "tools" / f"{file}.yaml", dict(bases)).values()
    }


def packaged_sets() -> tuple[str, ...]:
    """Give the names of the packaged sets."""
    return tuple(PACKAGED)


def load_tools(entry: str, folder: Path | None = None, root: Path | None = None) -> dict[str, Tool]:
    """Give the tools of an entry of a suite's ``tools``: a packaged set, or a file.

    A relative path is looked up in the suite's ``folder``, then in the ``root``. A file holds declarations of
    HTTP tools, or names operations of an OpenAPI document, or is Python. Raises ProblemsFound.
    """
    if entry in PACKAGED:
        return packaged(entry)
    path = _found(entry, folder, root)
    kept = _kept.get(path)
    if kept is None or kept[0] != _stamps(file for file, _ in kept[0]):
        tools, files = _read(path)
        kept = _kept[path] = (_stamps(files), tools)
    return dict(kept[1])


def files_of_tools(path: Path) -> tuple[Path, ...]:
    """Give all files that were read for the tools of a file that was loaded: an OpenAPI document too."""
    kept = _kept.get(path)
    return tuple(file for file, _ in kept[0]) if kept else (path,)


_kept: dict[Path, tuple[Stamps, dict[str, Tool]]] = {}


def _found(entry: str, folder: Path | None, root: Path | None) -> Path:
    places = [place for place in (folder, root) if place is not None] or [Path()]
    for place in places:
        if (place / entry).is_file():
            return (place / entry).absolute()
    looked = " and ".join(dict.fromkeys(shown(place / entry) for place in places))
    hint = nearest(entry, PACKAGED)
    raise ProblemsFound([Problem(entry, None, (), _KINDS, f"neither; looked for {looked}", hint)])


def _stamps(files: Iterable[Path]) -> Stamps:
    return tuple((file, file.stat().st_mtime_ns if file.exists() else 0) for file in files)


def _read(path: Path) -> tuple[dict[str, Tool], tuple[Path, ...]]:
    """Give the tools of a file, and all files that were read for them."""
    if path.suffix == ".py":
        from pytest_agenteval.tools.modules import python_tools

        return python_tools(path), (path,)
    if path.suffix.lower() not in (".yaml", ".yml", ".json"):
        raise ProblemsFound([Problem(shown(path), None, (), _KINDS, f"a {path.suffix or 'nameless'} file")])
    document = read_document(path)
    if isinstance(document.value, dict) and "openapi" in document.value:
        from pytest_agenteval.tools.openapi.reading import openapi_tools

        return openapi_tools(document)
    return tools_of(document), (path,)

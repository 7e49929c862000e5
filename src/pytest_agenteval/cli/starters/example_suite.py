"""A shipped suite, copied with its starting trees and recordings into somebody's project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.cli.starters.project import Project
from pytest_agenteval.cli.starters.writing import NewFile
from pytest_agenteval.registry.lazy_names import UnknownName
from pytest_agenteval.registry.registry import Example, Registry
from pytest_agenteval.text.errors import UsageMistake


def example_named(name: str, registry: Registry) -> Example:
    """Find an example; raises UsageMistake where nobody offers it."""
    try:
        return registry.example_named(name)
    except UnknownName as unknown:
        raise UsageMistake(f"--example={name}: {unknown}") from None


def example_files(example: Example, project: Project) -> list[NewFile]:
    """Give the files of an example; raises UsageMistake where they came with no package."""
    folder = example.folder
    if folder is None:
        parts = ", ".join(example.parts)
        raise UsageMistake(f"the example {example.name!r} was not installed: copy {parts} from its clone")
    return [
        NewFile(project.root / part / path.relative_to(folder / part), path.read_bytes())
        for part in example.parts
        for path in _files_below(folder / part)
    ]


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path

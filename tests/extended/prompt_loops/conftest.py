"""Projects for every test of this folder, made once and copied."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.loop.prompt_projects import bakery, everything_of_the_user


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give a project as it was made, by its name."""
    makers = {
        "bakery": lambda root: bakery(root),
        "bakery with own files": lambda root: bakery(root, own_files=True),
    }
    projects: dict[str, Path] = {}

    def project(name: str) -> Path:
        if name not in projects:
            projects[name] = makers[name](tmp_path_factory.mktemp("project"))
        return projects[name]

    return project


@pytest.fixture
def project(made: Callable[[str], Path], tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Copy a project for one test; after it, everything of the user's is as it was."""
    before: dict[Path, dict[str, str]] = {}

    def copied(name: str) -> Path:
        root = tmp_path / "project"
        shutil.copytree(made(name), root, symlinks=True)
        before[root] = everything_of_the_user(root)
        return root

    yield copied
    for root, state in before.items():
        assert everything_of_the_user(root) == state

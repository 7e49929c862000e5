"""Agents under test work in trees that go with the run of the tests."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all trees: a numbered one for each test would be looked for among thousands."""
    return tmp_path_factory.mktemp("trees")


@pytest.fixture(autouse=True)
def workspaces_are_cleared_up(trees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workspaces are made in a folder that pytest clears up."""
    monkeypatch.setattr(tempfile, "tempdir", str(trees))

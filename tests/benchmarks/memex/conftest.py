"""Agents under test work in trees that go with the test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def trees_go_with_the_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Workspaces are made in a folder that pytest clears up."""
    folder = tmp_path_factory.mktemp("trees")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder

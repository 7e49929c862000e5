"""An empty run to write into."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.store.run_folder import RunHeader, new_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give the folder of a new run."""
    return new_run(tmp_path / ".agenteval" / "runs", RunHeader("2026-11-21T09:30:15+00:00"))

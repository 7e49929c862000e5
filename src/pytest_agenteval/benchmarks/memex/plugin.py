"""The pytest fixture of this benchmark's trials."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def pkm_tree(workspace: Path) -> Path:
    """The knowledge base in this trial's workspace: its folder ``PKM``."""
    return workspace / "PKM"

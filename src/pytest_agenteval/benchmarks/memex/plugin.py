"""The pytest fixture of this benchmark's trials.

PYTEST_DONT_REWRITE: without this, pytest warns of a plugin that was imported as it is written, as ours are.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def pkm_tree(workspace: Path) -> Path:
    """The knowledge base in this trial's workspace: its folder ``PKM``."""
    return workspace / "PKM"

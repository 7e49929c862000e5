"""What the tests of importers share: the benchmark's own data, imported once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importers.clones import agenteval_import
from tests.ko_clone import CLONE


@pytest.fixture(scope="session")
def whole_benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Import everything once, with graders that count as the benchmark's code does; nobody writes here."""
    to = tmp_path_factory.mktemp("ko")
    assert agenteval_import("ko-agentbench", CLONE, "--to", to, "--mode", "upstream") == 0
    return to

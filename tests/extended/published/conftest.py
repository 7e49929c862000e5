"""The benchmark's own data, imported once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.ko_agentbench.clone import CLONE
from tests.benchmarks.ko_agentbench.importer.made_up_clone import agenteval_import


@pytest.fixture(scope="session")
def whole_benchmark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Import everything once, with graders that count as the benchmark's code does; nobody writes here."""
    to = tmp_path_factory.mktemp("ko")
    assert agenteval_import("ko-agentbench", CLONE, "--to", to, "--mode", "upstream") == 0
    return to

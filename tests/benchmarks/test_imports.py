"""The benchmarks that come with the package cost nothing where none of their names is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.registry.test_discovery import evals, modules, run
from tests.suites import task


@pytest.mark.parametrize("model", ["scripted", "rules"])
def test_a_run_that_names_nothing_of_a_benchmark_imports_nothing_of_it(tmp_path: Path, model: str) -> None:
    """But the small modules that say which names there are."""
    evals(tmp_path, task("good"))
    done = run(tmp_path, "evals", f"--agent-model={model}")
    rooms = {
        name.removeprefix("pytest_agenteval.benchmarks.") for name in modules(done) if ".benchmarks." in name
    }
    assert "pytest_agenteval.registry.installed" in modules(done)
    assert rooms <= {
        *("memex", "memex.register", "memex.plugin"),
        *("ko_agentbench", "ko_agentbench.register", "ko_agentbench.graders"),
    }

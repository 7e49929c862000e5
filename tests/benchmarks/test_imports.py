"""The benchmarks that come with the package cost nothing where none of their names is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.suites import suite, task, write

SHOWING = """
import sys, pytest
status = pytest.main(["-q", "evals", "-p", "pytest_agenteval.plugin", "--agent-model=scripted,rules"])
print(status, *sys.modules)
"""


def test_a_run_that_names_nothing_of_a_benchmark_imports_nothing_of_it(tmp_path: Path) -> None:
    """But the small modules that say which names there are."""
    write(tmp_path, {"evals/suite.yaml": suite(), "evals/all.yaml": [task("good")]})
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-c", SHOWING]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    status, *modules = done.stdout.splitlines()[-1].split()
    assert status in ("0", "1"), done.stdout + done.stderr  # the rules may miss
    assert "pytest_agenteval.registry.installed" in modules
    assert {
        name.removeprefix("pytest_agenteval.benchmarks.") for name in modules if ".benchmarks." in name
    } <= {
        *("memex", "memex.register", "memex.plugin"),
        *("ko_agentbench", "ko_agentbench.register", "ko_agentbench.graders"),
    }

"""What somebody who cloned the project types runs what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
REPETITIONS = 3


def test_pytest_without_a_path_collects_the_evals_too() -> None:
    """``pytest -n 8 --repetitions 3``, as it stands in README: three trials of every task of each suite."""
    ours = ("AGENTEVAL_", "PYTEST")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "--co", "-q", "-p", "pytest_agenteval.plugin"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    paths = project["tool"]["pytest"]["ini_options"]["testpaths"]
    others = [path for path in paths if path != "tests"]
    options = [f"--repetitions={REPETITIONS}", "-p", "no:cacheprovider", *others]

    assert "tests" in paths
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )

    trials = re.findall(r"^evals/(\w+)/\S+\[rules-(\d)\]$", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout[-2000:]
    assert {suite for suite, _ in trials} == {"card", "pkm", "ko"}
    counts = [sum(repetition == str(number) for _, repetition in trials) for number in (1, 2, 3)]
    assert counts == [157, 157, 157]

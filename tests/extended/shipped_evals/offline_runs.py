"""Runs of the shipped evals with offline models, in processes that cannot open a connection."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[3]
SUITES = ("card", "pkm", "ko")
MERGE = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"


def shipped_project(project: Path) -> Path:
    """Copy the evals into a project, so that runs leave nothing in the repository."""
    for folder in ("evals", "fixtures", "cassettes"):
        shutil.copytree(ROOT / folder, project / folder)
    (project / "pytest.ini").touch()
    return project


def run_evals(project: Path, name: str, suites: Sequence[str], *options: str, status: int = 0) -> Path:
    """Run suites; gives the folder of the run. Without a name it goes on with another one."""
    named = [f"--agent-run-name={name}"] if name else []
    where = [f"evals/{suite}" for suite in suites]
    program = str(ROOT / "tests" / "without_sockets.py")
    command = [sys.executable, program, *where, "-q", "-p", "no:cacheprovider", *named, *options]
    done = subprocess.run(command, cwd=project, env=_environment(), text=True, capture_output=True)
    assert done.returncode == status, done.stdout[-3000:] + done.stderr[-2000:]
    return project / ".agenteval" / "runs" / name


def offline_runs(project: Path) -> dict[str, Path]:
    """Run all suites with three models twice, the Korean one alone, and cards in every odd way; by name.

    ``merged`` is of two shards, ``regraded`` has the trials of ``korean`` with grades of its own, ``reused``
    took over those of ``cards``, and ``resumed`` ended at the first miss and was gone on with.
    """
    shipped_project(project)
    rules = "--agent-model=rules"
    runs = {
        "all": run_evals(project, "all", SUITES, "--agent-model=rules,oracle,nop", "--repetitions=2"),
        "korean": run_evals(project, "korean", ("ko",), rules),
        "cards": run_evals(project, "cards", ("card",), rules),
    }
    for number in (1, 2):
        run_evals(project, f"shard{number}", ("card",), f"--agent-shard={number}/2")
    merging = [sys.executable, "-c", MERGE, "merge", "shard1", "shard2", "--into", "merged"]
    subprocess.run(merging, cwd=project, env=_environment(), check=True, capture_output=True)
    runs["merged"] = runs["cards"].with_name("merged")
    runs["regraded"] = run_evals(project, "regraded", ("ko",), "--agent-regrade=korean")
    runs["reused"] = run_evals(project, "reused", ("card",), "--agent-reuse=cards", "--repetitions=2")
    runs["resumed"] = run_evals(project, "resumed", ("card",), "--agent-strict", "-x", status=1)
    run_evals(project, "", ("card",), "--agent-resume=resumed")
    return runs


def _environment() -> dict[str, str]:
    ours = ("AGENTEVAL_", "PYTEST_", "GITHUB_")
    known = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**known, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p agenteval"}

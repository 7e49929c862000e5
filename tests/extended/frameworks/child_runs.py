"""Runs of pytest in a framework's environment, read back from what they stored."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_agenteval import Trial, load_run
from tests.extended.frameworks.environments import ROOT

LONGEST_S = 400


@dataclass(frozen=True, slots=True)
class ChildRun:
    """One run of pytest: its status, what it printed, its trials, and the connections that it began."""

    status: int
    output: str
    trials: tuple[Trial, ...]
    connects: tuple[str, ...]
    seconds: float


def run_pytest(python: Path, project: Path, env: Mapping[str, str], *arguments: str) -> ChildRun:
    """Run pytest in the project, with nothing of this process's environment but the search path."""
    connects = project / "connects.txt"
    connects.unlink(missing_ok=True)
    home = project / "home"
    home.mkdir(exist_ok=True)
    surroundings = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(project / "site"), str(ROOT / "src")]),
        "CONNECTS": str(connects),
        **env,
    }
    began = time.monotonic()
    status, output = _finished([str(python), "-m", "pytest", "-q", *arguments], project, surroundings)
    seconds = time.monotonic() - began
    told = connects.read_text(encoding="utf-8").splitlines() if connects.exists() else ["never told"]
    return ChildRun(status, output, _trials(project), tuple(told), seconds)


def _finished(command: list[str], project: Path, env: Mapping[str, str]) -> tuple[int, str]:
    """Give the status and all that was printed; a run that hangs is ended, and has none of the statuses."""
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=dict(env),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_S,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired as hang:
        return -1, f"{str(hang.stdout)[-2000:]}\nstill running after {LONGEST_S} s"
    return done.returncode, done.stdout


def _trials(project: Path) -> tuple[Trial, ...]:
    runs = project / ".agenteval" / "runs"
    if not runs.exists():
        return ()
    run = load_run("latest", results=runs)
    return tuple(run.trial(entry) for entry in run.entries)

"""The evals of this repository, wherever their trials are carried out: every figure is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.store.run_reader import load_run

pytest.importorskip("ray", reason="needs Ray: pip install -e '.[ray]'")

ROOT = Path(__file__).parents[3]
WAYS = {
    "local": (),
    "workers": ("-n4",),
    "processes": ("--agent-executor=processes:2",),
    "ray": ("--agent-executor=ray:2",),
}


def figures(results: Path, *way: str) -> dict[Any, Any]:
    """Carry out all evals with offline models, and give all that is measured of each trial, but times."""
    command = [sys.executable, "-m", "pytest", "evals", "-q", "-p", "no:cacheprovider", *way]
    models = "--agent-model=rules,oracle"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AGENTEVAL_", "RAY_"))}
    done = subprocess.run(
        [*command, models, f"--agent-results={results}"], cwd=ROOT, env=clean, capture_output=True, text=True
    )
    assert "INTERNALERROR" not in done.stdout, done.stdout[-2000:]
    (folder,) = results.glob("2*")
    run = load_run(folder)
    return {
        entry.key: (
            entry.ending,
            entry.score,
            trial.grades,
            trial.digests,
            trial.outcome,
            trial.usage,
            trial.tool_tape,
            trial.chat_tape,
            trial.acted,
            trial.message,
            [(call.tool, call.args, call.result, call.error, call.tape) for call in trial.transcript.calls],
        )
        for entry in run.entries
        if (trial := run.trial(entry))
    }


def test_every_figure_is_the_same_wherever_trials_run(tmp_path: Path) -> None:
    """Scores, grades, digests, outcomes, tool calls: here, under xdist, in processes, on actors."""
    found = {name: figures(tmp_path / name, *way) for name, way in WAYS.items()}

    assert len(found["local"]) > 200
    for name in WAYS:
        assert found[name].keys() == found["local"].keys()
        differ = [key for key, measured in found["local"].items() if found[name][key] != measured]
        assert not differ, (name, differ[:5])

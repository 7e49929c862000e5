"""How many trials an improvement may still begin."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_agenteval.loop.improve.attempts import Attempts
from pytest_agenteval.loop.improve.progress import Improvement, Limits
from pytest_agenteval.loop.improve.repository import Repository
from pytest_agenteval.store.run_folder import RunHeader, open_run
from tests.loop.prompt_projects import git

STARTED = {"v": 1, "kind": "started", "attempt": 1, "suite": "s", "agent": "a", "model": "m"}


def test_a_trial_that_an_interruption_cut_off_is_a_trial(tmp_path: Path) -> None:
    """It was begun, and may have cost as much as any: two of them are two fewer to come."""
    git(tmp_path, "init", "-q")
    open_run(tmp_path / "name-start", RunHeader(started_at="", command=(), models=()))
    lines = [{**STARTED, "task": task, "repetition": 1, "at": ""} for task in ("one", "two")]
    journal = tmp_path / "name-start" / "journal-main.jsonl"
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    limits = Limits(rounds=1, max_rounds=None, max_trials=10, coding_timeout=1.0)
    improvement = Improvement(
        name="name",
        started_at="",
        command="",
        suite="s",
        suite_file="",
        folder="",
        globs=(),
        focus=(),
        repetitions=1,
        limits=limits,
        options=(),
        results=str(tmp_path),
        branch="",
        start="",
        kept="",
    )
    trying = Attempts(improvement, Repository(tmp_path), tmp_path)
    assert (trying.trials, trying.room()) == (0, 8)
    assert trying.has_room(8)
    assert not trying.has_room(9)

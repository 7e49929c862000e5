"""``agenteval runs --prune`` says what can be removed, and removes only that and only when it is told to."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.notes import Note, write_notes
from pytest_agenteval.store.pruning import plan_pruning, remove_run
from pytest_agenteval.store.run_folder import HOLD_FILE, Resumption, RunHeader, list_runs, new_run
from tests.journals import write_note

HOLD = """
import sys
from pathlib import Path
from pytest_agenteval.processes.files import PresenceLock

held = PresenceLock(Path(sys.argv[1]))
held.hold()
print("held", flush=True)
sys.stdin.readline()
held.release()
"""
"""Holds a run's file as a pytest does that works on it, until it is told to let go."""

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def run_of(root: Path, days_ago: int, **fields: object) -> Path:
    """Store a run that began so many days ago, with 1,000 bytes of its own."""
    folder = new_run(root, RunHeader((NOW - timedelta(days=days_ago)).isoformat(), **fields))  # type: ignore[arg-type]
    (folder / "journal-main.jsonl").write_bytes(b" " * 1000)
    return folder


def kept(root: Path, *, newest: int = 1, blessed: tuple[str, ...] = ()) -> dict[str, str]:
    """Give why runs stay where those of ten days are young."""
    plan = plan_pruning(
        root,
        young=timedelta(days=10),
        newest=newest,
        blessed=blessed,
        is_held=lambda folder: (folder / HOLD_FILE).exists(),
        now=NOW,
    )
    return {folder.name: why for folder, why in plan.retained.items()}


def test_runs_stay_that_somebody_may_want(tmp_path: Path) -> None:
    """Young, named, commented, blessed, going on, the newest; and what these refer to, also over several."""
    old, graded, before, blessed, held, resumed = (run_of(tmp_path, 30 + at) for at in range(6))
    commented = run_of(tmp_path, 40)
    write_note(commented, TrialKey("s", "t", "card", "rules", "", 1), Note("", "wrong tool"))
    # That it was looked at is no work which anybody would miss.
    write_notes(old, {TrialKey("s", "t", "card", "rules", "", 1): 1})
    named = tmp_path / "before-the-move"
    shutil.move(run_of(tmp_path, 50), named)
    again = run_of(tmp_path, 5, regraded=(graded.name,))
    (graded / "comparison.json").write_text(json.dumps({"v": 1, "old": f"another, {before.name}"}))
    (held / HOLD_FILE).touch()
    header = json.loads((resumed / "run.json").read_text())
    header["resumed"] = [Resumption((NOW - timedelta(days=2)).isoformat()).to_json()]
    (resumed / "run.json").write_text(json.dumps(header))
    newest = run_of(tmp_path, 1)

    assert kept(tmp_path, blessed=(blessed.name,)) == {
        newest.name: "among the newest",
        again.name: "young",
        graded.name: f"referred to by {again.name}",
        before.name: f"referred to by {graded.name}",
        blessed.name: "a baseline",
        held.name: "going on",
        resumed.name: "young",
        named.name: "named",
        commented.name: "with comments",
    }
    assert old.name in kept(tmp_path, newest=3)


def test_nothing_is_removed_that_nobody_can_read_or_date(tmp_path: Path) -> None:
    """A run of a newer version is no run here; one without a date may be of today."""
    newer, undated = run_of(tmp_path, 60), run_of(tmp_path, 61)
    (newer / "run.json").write_text('{"v": 99}')
    header = json.loads((undated / "run.json").read_text())
    (undated / "run.json").write_text(json.dumps({**header, "started_at": ""}))
    run_of(tmp_path, 0)

    plan = plan_pruning(
        tmp_path, young=timedelta(days=10), newest=1, blessed=(), is_held=lambda _: False, now=NOW
    )

    assert not plan.removable


def test_what_may_go_is_listed_and_goes_when_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With how much that frees; a run that is a baseline's, or that somebody holds, stays."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "runs"
    gone, blessed, pooled, held, newest = (run_of(root, days) for days in (300, 200, 150, 100, 90))
    baseline = tmp_path / "evals" / "baselines" / "pkm.json"
    baseline.parent.mkdir(parents=True)
    baseline.write_text(json.dumps({"agenteval_baseline": 1, "run": blessed.name}))
    of_two = {"agenteval_baseline": 1, "run": f"elsewhere, {pooled.name}", "runs": ["elsewhere", pooled.name]}
    baseline.with_name("two.json").write_text(json.dumps(of_two))
    prune = ["runs", "--prune", "--results", str(root), "--keep-newest", "1"]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(held / HOLD_FILE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    assert main(prune) == 0
    listed = capsys.readouterr().out
    assert f"1 of 5 runs in {root} can be removed, 1." in listed
    assert gone.name in listed
    assert "kept: 1 among the newest, 1 going on, 2 a baseline" in listed
    assert "Nothing was removed: add --yes" in listed
    assert gone.is_dir()

    assert main([*prune, "--yes"]) == 0
    holder.communicate(b"\n")

    assert [run.path for run in list_runs(root)] == [newest, held, pooled, blessed]
    assert not list(root.glob(".going-*"))
    assert main([*prune, "--json", "-"]) == 2


def test_half_a_removed_run_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the removal is interrupted the list does not know the run any more."""
    folder = run_of(tmp_path, 3)

    def interrupted(path: Path) -> None:
        (path / "journal-main.jsonl").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        remove_run(folder)

    assert list_runs(tmp_path) == []

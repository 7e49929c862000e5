"""What is to be tried: the focus that nobody chose, room for trials, and looks at held-out tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agenteval.loop.improve.attempts import looks_so_far, worst_bucket
from pytest_agenteval.loop.improve.improver import IMPROVEMENT_VARIABLE, claim_improvement
from pytest_agenteval.loop.improve.paired_runs import RunOrder, count_collected, variant_of
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunHeader, open_run
from pytest_agenteval.store.run_reader import Run
from tests.compare.samples import entry
from tests.forked_workers import fork_workers
from tests.suites import task, write


def run(*entries: JournalEntry) -> Run:
    """A run of these trials."""
    return Run(Path("run"), RunHeader("2026-01-01T00:00:00", variants=("", "new")), (), entries)


def test_the_focus_is_the_worst_bucket_of_dev_that_has_a_miss() -> None:
    """Errored trials say nothing, held-out ones neither, and a low score that passed is no miss."""
    trials = (
        entry("x/a", 1, 0.5),
        entry("x/b", 1, 1.0),
        entry("y/c", 1, 0.7),
        entry("errored/d", 1, None),
        entry("held/e", 1, 0.0, split="held_out"),
        entry("elsewhere/f", 1, 0.0, suite="t"),
    )
    buckets = ("x", "y", "errored", "held", "elsewhere")
    assert worst_bucket(run(*trials), "s", buckets) == "y"
    assert worst_bucket(run(*trials), "s", ("x",)) == "x"
    assert worst_bucket(run(*trials), "s", ("errored", "held")) is None


def test_one_side_of_a_run_has_its_own_trials_only() -> None:
    """Feedback on what was kept must not show what was before."""
    both = run(entry("x/a", 1, 0.5), entry("x/a", 1, 1.0, variant="new"))
    assert [each.score for each in variant_of(both, "new").entries] == [1.0]
    assert [each.score for each in variant_of(both, "").entries] == [0.5]


def test_looks_are_what_the_runs_of_the_folder_say(tmp_path: Path) -> None:
    """The newest look has the highest number, whichever run it stands in; other suites have their own."""
    assert looks_so_far(tmp_path, "s") == 0
    for name, looks in {"a-old": {"s": 1}, "a-new": {"s": 1}, "b": {"s": 2}, "c": {"t": 5}}.items():
        open_run(tmp_path / name, RunHeader("2026-01-01T00:00:00", held_out_looks=looks))
    assert looks_so_far(tmp_path, "s") == 2


def test_pytest_is_not_misled_by_the_names_of_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brackets are no parameters, and a dollar sign begins no variable."""
    fork_workers(monkeypatch)
    tree = tmp_path / "a [b] $HOME 'c'" / "tree"
    suite = {"name": "s", "kind": "capability"}
    write(tree, {"apps/[core]/evals/suite.yaml": suite, "apps/[core]/evals/a.yaml": task("a")})
    order = RunOrder(
        checkout=tmp_path,
        folder="apps/[core]",
        paths=("apps/[core]/evals",),
        results=tmp_path,
        name="x",
        outputs=tmp_path,
        split="dev",
        repetitions=2,
    )
    assert count_collected(tree, order) == 2


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="nobody else tells what a process knows")
def test_what_a_killed_process_left_running_is_ended_before_its_work_goes_on(tmp_path: Path) -> None:
    """A coding agent would go on to write into the tree of whoever takes over, trials be paid twice."""
    (tmp_path / "process").write_text("99999999", encoding="utf-8")
    sleep = (sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)")
    variables = {**os.environ, IMPROVEMENT_VARIABLE: tmp_path.name}
    left = subprocess.Popen(sleep, env=variables, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert left.stdout is not None
        left.stdout.readline()
        with claim_improvement(tmp_path):
            assert os.environ[IMPROVEMENT_VARIABLE] == tmp_path.name
            assert left.wait(timeout=10) < 0
        assert IMPROVEMENT_VARIABLE not in os.environ
    finally:
        left.kill()
        left.communicate()

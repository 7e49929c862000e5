"""What an improvement tries: whose files of a tree are, the focus, room for trials, held-out looks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_agenteval.loop.improve.attempts import (
    Attempts,
    TreeTask,
    held_out_files,
    looks_so_far,
    prompts_to_replace,
    read_tree_suite,
    worst_bucket,
)
from pytest_agenteval.loop.improve.improver import IMPROVEMENT_VARIABLE, claim_improvement
from pytest_agenteval.loop.improve.paired_runs import RunOrder, count_collected, python_path, variant_of
from pytest_agenteval.loop.improve.progress import Improvement, Limits
from pytest_agenteval.loop.improve.repository import Repository
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunHeader, open_run
from pytest_agenteval.store.run_reader import Run
from tests.compare.samples import entry
from tests.forked_workers import fork_workers
from tests.loop.prompt_projects import git
from tests.suites import task, write


def place(file: str, held_out: bool = False, **prompts: str) -> TreeTask:
    """A task in a file, with its prompts by name."""
    return TreeTask(file, "x", held_out, file, prompts)


def test_everything_of_a_held_out_task_is_its_own_but_nothing_of_dev() -> None:
    """Its file, its folder where it has one, and its recordings: a neighbour's are not."""
    tasks = [
        place("evals/s/held/a/task.json", held_out=True),
        place("evals/s/b.yaml", held_out=True),
        place("evals/s/both/task.yaml", held_out=True),
        place("evals/s/both/c.yaml"),
        place("evals/s/bb.yaml"),
    ]
    hidden = [
        "evals/s/held/a/task.json",
        "evals/s/held/a/workspace/notes.md",
        "cassettes/s/held/a.yaml",
        "evals/s/b.yaml",
        "cassettes/s/b.chat.yaml",
        "cassettes/s/b/one.yaml",
        "evals/s/both/task.yaml",
    ]
    seen = [
        "evals/s/both/c.yaml",
        "evals/s/bb.yaml",
        "cassettes/s/bb.yaml",
        "evals/s/suite.yaml",
        "prompts/a.md",
    ]
    assert held_out_files(tasks, [*hidden, *seen]) == hidden


def test_files_are_found_where_every_dev_task_shares_a_file_with_a_held_out_one() -> None:
    """A table with rows of both splits is hidden, and so is the folder of a held-out task beside it."""
    rows = "evals/s/rows.csv"
    tasks = [
        place("evals/s/held/task.json", held_out=True),
        TreeTask("row-1", "x", True, "evals/s/row-1.yaml", {}, rows),
        TreeTask("row-2", "x", False, "evals/s/row-2.yaml", {}, rows),
    ]
    hidden = [rows, "evals/s/held/task.json", "evals/s/held/workspace/notes.md"]
    assert held_out_files(tasks, [*hidden, "evals/s/suite.yaml"]) == hidden


def test_a_suite_is_read_with_its_splits_and_prompts(tmp_path: Path) -> None:
    """Paths are from the top of the tree; a file of two splits is of both."""
    suite = {"name": "s", "kind": "capability", "prompts": {"system": "../prompts/system.md"}}
    both = [task("a"), {**task("b"), "split": "held_out"}]
    write(tmp_path, {"evals/suite.yaml": suite, "evals/both.json": both, "prompts/system.md": "Be kind."})
    tasks = read_tree_suite(tmp_path, "evals/suite.yaml")
    assert [each.id for each in tasks.dev] == ["a"]
    assert [each.id for each in tasks.held_out] == ["b"]
    assert tasks.tasks[0].prompts == {"system": "prompts/system.md"}
    assert held_out_files(tasks.tasks, ["evals/both.json"]) == ["evals/both.json"]


def test_prompts_are_replaced_by_name_only_where_that_is_the_same_as_the_files() -> None:
    """Two names of one file are both replaced; a name that is two files, or none, makes two runs."""
    tasks = [place("a", system="p/s.md", again="p/s.md", tools="p/t.md"), place("b", system="p/s.md", again="p/s.md", tools="q/t.md")]  # fmt: skip  # noqa: E501
    texts = {"p/s.md": "new", "p/t.md": "new", "p/other.md": "new"}
    assert prompts_to_replace(tasks, ["p/s.md"], texts) == {"system": "new", "again": "new"}
    assert prompts_to_replace(tasks, ["p/t.md"], texts) == {}
    assert prompts_to_replace(tasks, ["p/s.md", "p/other.md"], texts) == {}
    assert prompts_to_replace([place("a", **{"no.file": "p/s.md"})], ["p/s.md"], texts) == {}


def test_each_tree_imports_its_own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources that are installed editable by a path or by a finder, and the user's own PYTHONPATH."""
    checkout, tree, other = tmp_path / "checkout", tmp_path / "tree", tmp_path / "other"
    for folder in ("src", "lib", "flat/package"):
        (tree / folder).mkdir(parents=True)
        (checkout / folder).mkdir(parents=True)
    (checkout / ".venv/site-packages").mkdir(parents=True)

    finder = type("Found", (), {"__module__": "__editable___package_finder"})
    module = ModuleType("__editable___package_finder")
    vars(module)["MAPPING"] = {"package": str(checkout / "flat/package")}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    monkeypatch.setattr(sys, "path", [str(checkout / "src"), str(checkout / ".venv/site-packages")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(checkout / "lib"), str(other)]))
    expected = [str(tree / "lib"), str(tree / "src"), str(tree / "flat"), str(other)]
    assert python_path(checkout, tree).split(os.pathsep) == expected


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

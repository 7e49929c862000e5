"""What of a tree is whose: held-out tasks' files, prompts by their names, and where its code is imported."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from pytest_agenteval.loop.improve.attempts import (
    TreeTask,
    held_out_files,
    prompts_to_replace,
    read_tree_suite,
)
from pytest_agenteval.loop.improve.paired_runs import python_path
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

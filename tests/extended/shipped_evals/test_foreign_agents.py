"""Agents that are not ours, on the card and PKM tasks: what lies on the disk is what counts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import load_run
from tests.suites import only_our_plugin, run

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]

REGISTERED = '''
"""Registers an agent that does what the references say: as a plain function, or as a program of its own."""

import json
import subprocess
import sys
from pathlib import Path

from foreign_agent import act
from pytest_agenteval.records.evidence import Answer

TASKS = [json.loads(file.read_text("utf-8")) for file in Path("evals").rglob("task.json")]
TURNS = {json.dumps(task["input"], sort_keys=True): task["reference_solution"]["turns"] for task in TASKS}
PROGRAM = [sys.executable, "-I", "-S", "foreign_agent.py"]


def function(task_input, ctx):
    return Answer(act(ctx.path, TURNS[json.dumps(dict(task_input), sort_keys=True)]), STATE)


class Program:
    def run(self, task_input, ctx):
        said = json.dumps(TURNS[json.dumps(dict(task_input), sort_keys=True)]).encode()
        done = subprocess.run([*PROGRAM, str(ctx.path)], input=said, capture_output=True, check=True)
        return Answer(done.stdout.decode())


def pytest_agenteval_register(registry):
    registry.agent("foreign", KIND)
'''
TRUE: Mapping[str, Any] = {"mood": "fine"}
"""A state in words of the agent's own: none that the graders know."""


def foreign(pytester: pytest.Pytester, kind: str, *options: str) -> dict[str, JournalEntry]:
    """Let a foreign agent do the card and PKM tasks, those that are held out included; by task id."""
    for suite in ("card", "pkm"):
        shutil.copytree(ROOT / "evals" / suite, pytester.path / "evals" / suite)
        path = pytester.path / "evals" / suite / "suite.yaml"
        path.write_text(path.read_text("utf-8").replace(f"agent: {suite}", "agent: foreign"), "utf-8")
    shutil.copytree(ROOT / "fixtures", pytester.path / "fixtures")
    shutil.copy(Path(__file__).with_name("foreign_agent.py"), pytester.path)
    conftest = REGISTERED.replace("KIND", kind).replace("STATE", repr(dict(TRUE)))
    (pytester.path / "conftest.py").write_text(conftest, encoding="utf-8")
    run(pytester, "evals", "-q", "--agent-split=all", "--repetitions=1", *options)
    stored = load_run((pytester.path / ".agenteval" / "runs" / "latest").resolve())
    return {entry.key.task: entry for entry in stored.entries}


@pytest.fixture(autouse=True)
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load nothing but this plugin."""
    only_our_plugin(monkeypatch)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.parametrize("kind", ["function", "Program"])
def test_an_agent_that_is_not_ours_passes_by_its_files_alone(pytester: pytest.Pytester, kind: str) -> None:
    """Every task of both suites and both splits, with no tool of ours called and no end state told.

    A program does what the function does, so that one task of each bucket tells of it.
    """
    files = [*(ROOT / "evals" / "card").rglob("task.json"), *(ROOT / "evals" / "pkm").rglob("task.json")]
    ids = {json.loads(file.read_text(encoding="utf-8"))["id"] for file in files}

    entries = foreign(pytester, kind, *(["--agent-sample=1"] if kind == "Program" else []))

    missed = {
        id: [f"{grade.grader}: {grade.rationale}" for grade in entry.grades if grade.passed is not True]
        for id, entry in entries.items()
        if entry.ending != "passed" or entry.score != 1.0
    }
    assert missed == {}
    assert set(entries) == ids if kind == "function" else set(entries) < ids

"""Plans as JSON: nothing is lost on the way, and whoever gets one needs the conftests and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from pytest_agenteval.records.plan import (
    Allowance,
    Conditions,
    Model,
    Plan,
    PlannedGrader,
    PlannedTask,
    Variant,
)
from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.text.errors import UsageMistake
from tests.engine.executing import execute, plan
from tests.forked_workers import start_python

texts = st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=5)
maps = st.dictionaries(texts, values, max_size=3)
amounts = st.none() | st.integers(1, 9)
models = st.builds(Model, texts, texts, st.booleans(), maps, texts)
graders = st.builds(
    PlannedGrader, texts, texts, maps, st.floats(0.1, 9), st.none() | st.floats(0, 1), st.booleans()
)
allowances = st.builds(Allowance, amounts, amounts, amounts, amounts)
tasks = st.builds(
    PlannedTask,
    suite=texts,
    id=texts,
    agent=texts,
    kind=st.sampled_from(["capability", "regression", "mixed"]),
    bucket=texts,
    graders=st.lists(graders, max_size=2).map(tuple),
    input=maps,
    file=texts,
    tags=st.lists(texts, max_size=2).map(tuple),
    settings=maps,
    prompts=st.dictionaries(texts, texts, max_size=2),
    layers=st.lists(texts, max_size=2).map(tuple),
    limits=allowances,
    clock=st.none() | texts,
    reference=st.none() | maps,
    script=st.none() | st.lists(maps, max_size=2).map(tuple),
    split=st.sampled_from(["dev", "held_out"]),
    on_miss=st.sampled_from(["error", "tool_error"]),
)
conditions = st.builds(
    Conditions,
    record=st.sampled_from(["none", "once", "new_episodes", "all"]),
    record_chat=st.sampled_from(["off", "none", "once"]),
    judges=st.lists(models, max_size=2).map(tuple),
    seed=st.integers(0, 9),
)
variants = st.builds(Variant, texts, st.dictionaries(texts, texts, max_size=2))
plans = st.builds(Plan, tasks, models, variants, st.integers(1, 9), st.integers(1, 9), conditions)


CONFTEST = """
from sibling import GREETING, Weighing


class Greeter:
    async def run(self, task_input, ctx):
        (ctx.path / "said.md").write_text(GREETING)
        return f"{GREETING}, {task_input['name']}!"


def pytest_agenteval_register(registry):
    registry.agent("greeter", Greeter)
    registry.grader("weighing", Weighing)
"""
SIBLING = """
from dataclasses import dataclass

from pytest_agenteval.records.evidence import Grade

GREETING = "Good morning"


@dataclass(frozen=True)
class Weighing:
    wanted: tuple = ()

    def grade(self, evidence):
        found = [word for word in self.wanted if word in evidence.answer]
        written = evidence.after.text("said.md")
        return Grade("weighing", len(found) / len(self.wanted), f"found {found}, wrote {written!r}")
"""
ELSEWHERE = """
import asyncio, json, sys
from pathlib import Path

from pytest_agenteval.registry.registration import load_registry
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.engine.trial import run_trial
from pytest_agenteval.records.plan import Plan

asked = json.load(sys.stdin)
registry = load_registry([Path(folder) for folder in asked["conftests"]])
trial = asyncio.run(run_trial(Plan.from_json(asked["plan"]), WorkerContext(registry)))
grades = [[grade.grader, grade.score, grade.rationale, grade.passed] for grade in trial.grades]
print(json.dumps({"ending": trial.ending, "score": trial.score, "grades": grades, "message": trial.message}))
"""


@pytest.fixture
def evals(tmp_path: Path) -> Path:
    """A folder whose conftest offers an agent and a grader, with the help of a module beside it."""
    folder = tmp_path / "evals"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "sibling.py").write_text(SIBLING)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    return folder


def elsewhere(asked: dict[str, Any], cwd: Path) -> dict[str, Any]:
    """Carry out a plan in a new process, which knows what is asked and nothing more."""
    process = start_python("-c", ELSEWHERE, stdin=-1, stdout=-1, stderr=-1, text=True, cwd=cwd)
    printed, errors = process.communicate(json.dumps(asked), timeout=60)
    assert process.returncode == 0, errors
    found: dict[str, Any] = json.loads(printed)
    return found


def test_a_spawned_process_gives_the_same_grades(
    evals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows the plan's JSON and where the conftests are; options for pytest runs do not matter."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option-either")
    monkeypatch.setattr(sys, "path", list(sys.path))
    asked = (
        PlannedGrader(
            "weighing", "words", {"wanted": ["Good", "Mina", "evening"]}, weight=3.0, threshold=0.5
        ),
        PlannedGrader("answer_contains", "name", {"text": "Omar"}),
    )
    made = plan("t", *asked, agent="greeter", input={"name": "Mina"}, script=None)
    there = elsewhere({"plan": made.to_json(), "conftests": [str(evals)]}, tmp_path)
    (here,) = execute(load_registry([evals]), made)
    assert there["grades"] == [
        [grade.grader, grade.score, grade.rationale, grade.passed] for grade in here.grades
    ]
    assert (there["ending"], there["score"]) == (here.ending, here.score) == ("failed", pytest.approx(0.5))


def test_a_conftest_that_cannot_be_loaded_is_told_in_pytests_words(
    evals: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the file and what is missing, and nothing is printed."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = evals / "more"
    folder.mkdir()
    (folder / "conftest.py").write_text("import no_such_module_anywhere\n")
    with pytest.raises(UsageMistake, match="no_such_module_anywhere") as told:
        load_registry([folder])
    assert "conftest.py" in str(told.value)
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_while_conftests_are_loaded_ends_more_than_the_loading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest keeps the interruption to itself; who asked must not go on as if nothing had been."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    hook = "@pytest.hookimpl(trylast=True)\ndef pytest_sessionstart():\n    raise KeyboardInterrupt\n"
    (tmp_path / "conftest.py").write_text(f"import pytest\n\n{hook}")
    with pytest.raises(KeyboardInterrupt):
        load_registry([tmp_path], [f"--rootdir={tmp_path}"])

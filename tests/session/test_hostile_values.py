"""What an agent, a tool or a grader gives may be anything: it is cut or breaks its own trial, no other."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.records.trial import Trial
from pytest_agenteval.text import patterns
from tests.journals import finished, latest_trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

HOSTILE = """
import os

from pytest_agenteval.records.evidence import Check, Grade
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.toolsets import tool_of


def nested(depth):
    value = "core"
    for _ in range(depth):
        value = {"in": value}
    return value


CIRCLE = {}
CIRCLE["self"] = CIRCLE


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("no words")


class Unwritable:
    def __repr__(self):
        raise ValueError("no words")


def deep(levels: object) -> dict:
    '''Give something deep.'''
    return nested(levels) if isinstance(levels, int) and levels else CIRCLE


STATES = {
    "deep": nested(1200),
    "circle": CIRCLE,
    "number": {"n": 10 ** 6000},
    "unwritable": {"it": Unwritable()},
}


class Hostile:
    def __init__(self, way=""):
        self.way = way

    async def run(self, task_input, ctx):
        if self.way == "raises":
            raise Unspeakable
        if self.way == "tool":
            ctx.tools.offer_named(["deep"])
            found = [await ctx.tools.call(ToolCall("c", 1, n, "deep", {"levels": n})) for n in (0, 900)]
            await ctx.tools.call(ToolCall("c", 1, 3, "deep", {"levels": nested(1200)}))
            return Answer("Mina " + str([len(str(each.content)) for each in found]))
        if self.way == "folders":
            here = os.open(ctx.workspace.path, os.O_RDONLY)
            for _ in range(1500):
                os.mkdir("a-folder-with-a-name", dir_fd=here)
                below = os.open("a-folder-with-a-name", os.O_RDONLY, dir_fd=here)
                os.close(here)
                here = below
            os.close(here)
        if self.way == "sparse":
            with open(ctx.workspace.path / "hole", "wb") as file:
                file.truncate(60 * 1024**3)
            os.mkfifo(ctx.workspace.path / "pipe")
            os.symlink("loop", ctx.workspace.path / "loop")
        if self.way == "prints":
            print("x" * 3_000_000)
        if self.way == "text":
            return Answer("Mina" * 2_000_000)
        return Answer("Mina", STATES.get(self.way, {}))


class Talkative:
    def grade(self, evidence):
        return Grade("talkative", 1.0, "fine", (Check("c", True),), {"deep": nested(1200), "circle": CIRCLE})


def pytest_agenteval_register(registry):
    registry.agent("hostile", Hostile)
    registry.grader("talkative", Talkative)
    registry.tool(tool_of(deep))
"""
WAYS = ["deep", "circle", "number", "unwritable", "raises", "tool", "folders", "sparse", "prints", "text"]


def hostile(way: str, **more: Any) -> dict[str, Any]:
    """Give a task whose agent is hostile in this way."""
    return task(way, agent="hostile", settings={"way": way}, **more)


@pytest.fixture
def scratch(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files lie, emptied at the end: so deep a tree would break pytest's own tidying."""
    folder = pytester.mkdir("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_a_hostile_value_harms_no_other_trial(pytester: pytest.Pytester, scratch: Path) -> None:
    """Each is cut and says so, or its trial says that it cannot be written down; all others pass.

    The tree of 1,500 folders is deleted whole: nothing of it is left where temporary files lie.
    """
    grade = [{"name": "talkative"}]
    tasks = [task(f"t{n}") for n in range(4)]
    tasks[2:2] = [*map(hostile, WAYS), task("details", graders=grade)]
    write(
        pytester.path, {"evals/suite.yaml": suite(), "evals/conftest.py": HOSTILE, "evals/tasks.yaml": tasks}
    )

    result = run(pytester, "evals", "-p", "no:cacheprovider")

    errored = {"unwritable", "raises"}
    trials = latest_trials(pytester.path)
    assert {name for name, trial in trials.items() if trial.ending != "passed"} == errored
    assert len(trials) == len(tasks)
    result.assert_outcomes(passed=len(tasks) - len(errored), errors=len(errored))
    texts = {name: json.dumps(_all(trial), ensure_ascii=False, default=str) for name, trial in trials.items()}
    assert "nested deeper than 100" in texts["deep"]
    assert "holds itself" in texts["circle"]
    assert "a whole number of" in texts["number"]
    assert trials["unwritable"].cause == "unwritable"
    assert trials["raises"].message == "Unspeakable: (its text cannot be had: ValueError)"
    assert texts["tool"].count("nested deeper than 100") >= 2
    assert "holds itself" in texts["tool"]
    assert [file.why for file in trials["folders"].outcome.after.files.values()] == ["too deep"]
    left = {path: file.why for path, file in trials["sparse"].outcome.after.files.items()}
    assert left == {"hole": "too large", "loop": "link", "pipe": "binary"}
    assert trials["prints"].output.endswith("characters more)\n")
    assert "characters long" in texts["text"]
    assert "nested deeper than 100" in texts["details"]
    assert "holds itself" in texts["details"]
    assert list(scratch.iterdir()) == []


def _all(trial: Trial) -> list[Any]:
    calls = [(dict(call.args), call.result, call.error) for call in trial.transcript.calls]
    details = [dict(grade.details) for grade in trial.grades]
    return [trial.outcome.answer.text[-100:], dict(trial.outcome.answer.state), calls, details]


SLOW = "(a|a)+$"
ANSWER = "a" * 60 + "! Mina"
CALLS = {
    "agent": "tool_calling",
    "settings": {"tools": ["look"]},
    "script": [{"calls": [{"tool": "look", "args": {"at": ANSWER}}]}, {"text": "Mina"}],
}
FREE_CALLS = {**CALLS, "settings": {"tools": ["free"]}}
FREE_CALLS["script"] = [{"calls": [{"tool": "free", "args": {"at": ANSWER}}]}, {"text": "Mina"}]
TOOLS = f"""
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tools.tool import Tool


def pytest_agenteval_register(registry):
    shape = {{"type": "object", "properties": {{"at": {{"type": "string", "pattern": "{SLOW}"}}}}}}
    registry.tool(Tool(ToolSpec("look", "Looks.", shape), lambda args: "seen"))
    registry.tool(Tool(ToolSpec("free", "Looks."), lambda args: "seen"))
"""


def slow_task(id: str, name: str, config: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Give a task with a grader that holds a slow pattern, beside one that passes."""
    passing = {"name": "answer_contains", "config": {"text": "Mina"}}
    return task(id, says=ANSWER, graders=[passing, {"name": name, "config": config}], **more)


def test_a_pattern_that_takes_too_long_is_an_error_of_its_own_trial(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever an author may write one: it is no miss of the agent, and never a pass."""
    monkeypatch.setattr(patterns, "SECONDS", 0.1)
    tasks = [
        task("fine"),
        slow_task("answer", "answer_matches", {"patterns": [SLOW]}),
        slow_task(
            "argument", "call_arguments", {"tool": "free", "args": {"at": {"regex": SLOW}}}, **FREE_CALLS
        ),
        slow_task("called", "tool_called", {"tools": ["look"]}, **CALLS),
    ]
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/conftest.py": TOOLS, "evals/tasks.yaml": tasks})
    result = run(pytester, "evals")
    ended = finished(pytester.path)
    assert ended["fine"]["ending"] == "passed"
    for name in ("answer", "argument", "called"):
        assert (ended[name]["ending"], ended[name]["cause"]) == ("errored", "pattern_too_slow"), name
    (contains, matches) = ended["answer"]["grades"]
    assert (contains["score"], matches["score"]) == (1.0, None)
    assert matches["rationale"].startswith(f"the pattern {SLOW!r} took too long: more than 0.1 s")
    result.stdout.fnmatch_lines(["*pattern_too_slow: the pattern '(a|a)+$' took too long*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_thousands_of_calls_of_one_reply_are_made_some_at_a_time(pytester: pytest.Pytester) -> None:
    """All of them are carried out, in their order, on far fewer threads than there are calls."""
    conftest = """
import threading
from pytest_agenteval import Tool, ToolSpec
most, before = 0, threading.active_count()  # of what ran here before, some threads are left

def count(args):
    global most
    most = max(most, threading.active_count() - before)
    return str(most)

def pytest_agenteval_register(registry):
    registry.tool(Tool(ToolSpec("count", "Counts."), count))

def pytest_unconfigure():
    print("threads at once:", most if most < 60 else "too many")
"""
    calls = [{"tool": "count", "args": {"n": n}} for n in range(1000)]
    write(
        pytester.path,
        {"conftest.py": conftest, "evals/suite.yaml": suite(more="settings: {tools: [count]}\n")},
    )
    write(
        pytester.path, {"evals/t.json": {**task("t"), "script": [{"calls": calls}, {"text": "Hello, Mina!"}]}}
    )

    result = run(pytester, "evals", "-s")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["threads at once: [0-9]*"])

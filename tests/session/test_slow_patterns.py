"""A pattern that takes too long: the grade says which and for how long, and no other trial is held up."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.text import patterns
from tests.journals import finished
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

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

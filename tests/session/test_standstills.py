"""What holds up the loop of all trials is no trial's own time but, at most, that of who did it."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


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

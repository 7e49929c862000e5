"""What holds up the loop of all trials is no trial's own time but, at most, that of who did it."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TOOLS = """
import asyncio, time
from pytest_agenteval import Tool, ToolSpec

async def rest(args):
    await asyncio.sleep(0.2)
    return "rested"

async def block(args):
    time.sleep(3)  # as reading a huge reply does: nothing else goes on meanwhile
    return "blocked"

def pytest_agenteval_register(registry):
    for function in (rest, block):
        registry.tool(Tool(ToolSpec(function.__name__, "Waits."), function))
"""


def calling(id: str, *tools: str, **more: object) -> dict[str, object]:
    """Give a task whose agent calls these tools, one after the other."""
    script = [*({"calls": [{"tool": tool, "args": {}}]} for tool in tools), {"text": "Hello, Mina!"}]
    return {**task(id), "script": script, **more}


def test_an_agent_that_holds_up_the_loop_limits_no_other(pytester: pytest.Pytester) -> None:
    """Ten trials of 2 s each have 1 s to rest in all, beside one that lets nobody go on for 3 s."""
    write(
        pytester.path,
        {"conftest.py": TOOLS, "evals/suite.yaml": suite(more="settings: {tools: [rest, block]}\n")},
    )
    resting = [calling(f"r{n}", *["rest"] * 5, limits={"seconds": 2}) for n in range(10)]
    write(pytester.path, {"evals/tasks.json": [*resting[:5], calling("b", "rest", "block"), *resting[5:]]})

    result = run(pytester, "evals", "--agent-concurrency=11")

    result.assert_outcomes(passed=11)
    result.stdout.no_fnmatch_line("*limited*")


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

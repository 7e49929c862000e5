"""What trials print and log."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick", "forked")

TALKING = """
import asyncio
import logging
import sys
import time

from pytest_agenteval.records.evidence import Grade


class Talking:
    '''Prints and logs its name again and again while others do the same.'''

    async def run(self, task_input, ctx):
        for number in range(3):
            print(f"out <{task_input['content']}> {number}")
            print(f"err <{task_input['content']}> {number}", file=sys.stderr)
            logging.getLogger("talk").warning("log <%s> %d", task_input["content"], number)
            await asyncio.sleep(0.001)
        sys.stdout.writelines([f"lines <{task_input['content']}>\\n"])
        return "no"


class TalkingInThread:
    def run(self, task_input, ctx):
        for number in range(3):
            print(f"out <{task_input['content']}> {number}")
            time.sleep(0.001)
        return "no"


class TalkingGrader:
    def grade(self, evidence):
        print(f"grader <{evidence.task_input['content']}>")
        return Grade("talking", 0.0, "nothing is good enough")


def pytest_agenteval_register(registry):
    registry.agent("talking", Talking)
    registry.agent("in_thread", TalkingInThread)
    registry.grader("talking", TalkingGrader)
"""
NAME = re.compile(r"<(t\d+)>")


def talking(count: int, **more: Any) -> list[dict[str, Any]]:
    """Give tasks whose agents print and log; each third of them from a thread."""
    return [
        task(
            f"t{n:03}",
            agent="talking" if n % 3 else "in_thread",
            input={"content": f"t{n:03}"},
            graders=[{"name": "talking"}],
            **more,
        )
        for n in range(count)
    ]


def evals(root: Path, tasks: list[dict[str, Any]]) -> None:
    """Write a suite of talking tasks."""
    suite = "name: demo\nkind: regression\ndefaults: {model: scripted}\n"
    write(root, {"evals/suite.yaml": suite, "evals/conftest.py": TALKING, "evals/tasks.yaml": tasks})


def sections(result: pytest.RunResult) -> dict[str, list[str]]:
    """Give the lines that stand under each failed item's heading."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in result.outlines:
        heading = re.match(r"_+ (t\d+)\[scripted-1\] _+$", line)
        if heading:
            current = found.setdefault(heading[1], [])
        elif line.startswith("====="):
            current = []
        current.append(line)
    return found


def test_what_concurrent_trials_print_stands_with_their_own_items(pytester: pytest.Pytester) -> None:
    """Sixty trials, agents and graders, loop and threads: nothing of one stands with another."""
    evals(pytester.path, talking(60))
    result = run(pytester, "evals", workers=2)
    result.assert_outcomes(failed=60)
    captured = sections(result)
    assert len(captured) == 60
    for name, lines in captured.items():
        text = "\n".join(lines)
        assert set(NAME.findall(text)) == {name}
        assert (text.count("out <"), text.count("grader <")) == (3, 1)
        if int(name[1:]) % 3:
            assert (text.count("err <"), text.count("lines <"), text.count("log <")) == (3, 1, 3)


def test_a_passing_trial_is_quiet_and_its_output_is_in_the_report(pytester: pytest.Pytester) -> None:
    """Nothing is shown of it, unless -rP asks; streams and handlers are left as they were."""
    before = list(logging.getLogger().handlers)
    evals(pytester.path, [*talking(1), task("good", agent="talking", input={"content": "t777"}, wants="no")])
    assert "<t777>" not in run(pytester, "evals").stdout.str()
    assert "out <t777> 2" in run(pytester, "evals", "-rP").stdout.str()
    assert logging.getLogger().handlers == before
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        assert "write" not in vars(stream)


@pytest.mark.parametrize("capture", ["sys", "fd", "tee-sys"])
def test_every_way_of_capturing_keeps_trials_apart(pytester: pytest.Pytester, capture: str) -> None:
    """And the streams are as they were when the run is over."""
    evals(pytester.path, talking(10))
    captured = sections(pytester.runpytest_subprocess("evals", f"--capture={capture}"))
    assert len(captured) == 10
    assert all(set(NAME.findall("\n".join(lines))) == {name} for name, lines in captured.items())


def test_without_capture_prints_come_as_they_are(pytester: pytest.Pytester) -> None:
    """With -s somebody wants to see them at once, in order; they stand in no section."""
    evals(pytester.path, talking(2))
    result = pytester.runpytest_subprocess("evals", "-s")
    speakers = [NAME.findall(line)[0] for line in result.outlines if "out <" in line]
    assert speakers == ["t000"] * 3 + ["t001"] * 3
    assert not any("out <" in line for lines in sections(result).values() for line in lines)

"""Calls that were not recorded are named, each with what is there in its place and what to do."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CONFTEST = """
from pytest_agenteval.tools.toolsets import tool_of

def search(q: str) -> str:
    return q

def pytest_agenteval_register(registry):
    registry.tool(tool_of(search, taped=True))
"""


def searching(id: str, *words: str) -> dict[str, object]:
    """Give a task that fails after searching for these words."""
    calls = [{"tool": "search", "args": {"q": word}} for word in words]
    script = [{"calls": calls}, {"text": "nothing"}]
    return task(id, script=script, settings={"tools": ["search"]}, wants="Mina")


def test_each_miss_is_named_and_the_worst_first(pytester: pytest.Pytester) -> None:
    """Where a miss is shown to the model the trial goes on: its reasons name each, -v the whole run's."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/conftest.py": CONFTEST})
    write(pytester.path, {"evals/suite.yaml": suite(more="on_miss: tool_error\n")})
    write(pytester.path, {"evals/t.json": searching("t", "부산")})
    run(pytester, "evals", "--agent-record=once")
    write(pytester.path, {"evals/t.json": searching("t", "서울", "서울", "제주", "부산")})

    result = run(pytester, "evals", "-v", "--repetitions=2", workers=2)

    output = result.stdout.str()
    reasons, _, summary = output.partition("not recorded, the most often missed first")
    command = "record it:  pytest evals/t.json -k t --agent-record=new_episodes --agent-model=scripted"
    for part, seoul, jeju in (
        (
            reasons,
            "  not recorded, 2 times: cassettes/t.yaml: search(q='서울')",
            "  not recorded: cassettes/",
        ),
        (
            summary,
            "4 times in 2 trials: cassettes/t.yaml: search(q='서울')",
            "2 times in 2 trials: cassettes/",
        ),
    ):
        assert 0 < part.index(seoul) < part.index(jeju + "t.yaml: search(q='제주')")
        assert "found: 1 call of this tool; the nearest differs in q: '부산'" in part
        assert command.replace(" ", "") in part.replace(" ", "").replace("\n", "")
    assert f"{command.partition('  ')[2]} --repetitions=2" in summary  # on one line, to be pasted
    assert "6 of 8 calls not recorded" in output


def test_a_broken_trial_names_its_miss_once(pytester: pytest.Pytester) -> None:
    """What its message says at length is not said again."""
    write(pytester.path, {"pytest.ini": "[pytest]\n", "evals/conftest.py": CONFTEST})
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": searching("t", "서울")})
    result = run(pytester, "evals")
    result.assert_outcomes(errors=1)
    assert result.stdout.str().count("search(q='서울')") == 1

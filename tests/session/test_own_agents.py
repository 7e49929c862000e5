"""Agents and tools of the user's own: what they are given, and what is said of what they give back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journals import trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TOOLS = '''
from collections import ChainMap


def tides(harbour: str) -> dict:
    """The tides of a harbour."""
    return {"harbour": harbour}


def broken(harbour: str) -> dict:
    """Fails."""
    return ChainMap()[harbour]
'''
SAYS = """
from pytest_agenteval.records.evidence import Answer


class Returns:
    def __init__(self, what="", state=False):
        self.what = what

    def run(self, task_input, ctx):
        if self.what == "files":
            (ctx.path / "note.md").write_text("Mina")
            return None
        return {
            "nothing": None,
            "dict": {"answer": "Mina", "score": 1},
            "text": "Mina",
            "answer": Answer("Mina"),
            "number": 7,
            "bad text": Answer({"text": "Mina"}),
            "offered": " ".join(spec.name for spec in ctx.tools.specs),
        }[self.what]


def pytest_agenteval_register(registry):
    registry.agent("own", Returns)
"""


def returning(id: str, what: str, **more: Any) -> dict[str, Any]:
    """Give a task whose agent returns this."""
    return task(id, agent="own", settings={"what": what}, **more)


def test_what_an_agent_returns_is_taken_or_told(pytester: pytest.Pytester) -> None:
    """A text and an Answer are answers; None is an empty one, said where it missed; all else is an error."""
    files = [{"name": "file_contains", "config": {"path": "note.md", "texts": ["Mina"]}}]
    several = [
        returning("nothing", "nothing"),
        returning("files", "files", graders=files),
        returning("text", "text"),
        returning("answer", "answer"),
        returning("dict", "dict"),
        returning("number", "number"),
        returning("bad_text", "bad text"),
    ]
    write(pytester.path, {"conftest.py": SAYS, "evals/suite.yaml": suite(), "evals/many.json": several})

    result = run(pytester)

    result.assert_outcomes(passed=3, failed=1, errors=3)
    out = str(result.stdout)
    assert "ERROR evals/many.json::dict[scripted-1] - answer: the agent returned a dict" in out
    assert "(keys: answer, score)" in out
    assert "answer: the agent returned an int" in out
    assert "answer: the agent returned an Answer whose text is a dict" in out
    assert "Traceback" not in out
    assert out.count("the agent returned None") == 1  # in the trial's reasons
    assert out.count("own: the agent gave an empty answer in every trial that missed") == 1
    stored = trials(pytester.path)
    assert stored["dict"].ending == "errored"
    assert stored["files"].score == 1.0


def test_all_tools_of_a_suite_are_offered_unless_settings_name_some(pytester: pytest.Pytester) -> None:
    """``tools:`` alone is enough, for our agents and for others; ``settings.tools`` narrows, also to none."""
    calls = [{"calls": [{"tool": "tides", "args": {"harbour": "Busan"}}]}, {"text": "Mina"}]
    called = [{"name": "tool_called", "config": {"tools": ["tides"], "succeeded": True}}]
    several = [
        task("ours", script=calls, graders=called),
        task("none", script=calls, graders=called, settings={"tools": []}),
        task("other", script=calls, graders=called, settings={"tools": ["broken"]}),
        returning(
            "own", "offered", graders=[{"name": "answer_contains", "config": {"text": "tides broken"}}]
        ),
    ]
    files = {"conftest.py": SAYS, "evals/tools.py": TOOLS, "evals/many.json": several}
    write(pytester.path, {"evals/suite.yaml": suite(more="tools: [tools.py]\n"), **files})

    result = run(pytester, "-rA")

    passed = [line for line in result.outlines if line.startswith("PASSED")]
    assert [line.split("::")[1] for line in passed] == ["ours[scripted-1]", "own[scripted-1]"]
    result.assert_outcomes(passed=2, failed=2)


MISSPELT: list[tuple[dict[str, Any], str]] = [
    ({"name": "tool_not_called", "config": {"tools": ["broken", "tidse"]}}, "tools?1?"),
    ({"name": "tool_called", "config": {"tools": ["Tides"]}}, "tools?0?"),
    ({"name": "calls_in_order", "config": {"tools": ["tides", "brokne"]}}, "tools?1?"),
    ({"name": "call_arguments", "config": {"tool": "tide", "args": {"harbour": "Busan"}}}, "tool"),
]


def test_a_tool_that_is_misspelt_is_told(pytester: pytest.Pytester) -> None:
    """Nobody can call it: a grader that forbids it would pass for ever, and a fault would never strike.

    What is not alike may be meant.
    """
    meant = {
        "name": "tool_not_called",
        "label": "left alone",
        "config": {"tools": ["delete", "tides_of_yesterday"]},
    }
    tasks = {
        f"evals/{number}.json": task(f"t{number}", graders=[meant, grader])
        for number, (grader, _) in enumerate(MISSPELT)
    }
    faulty = task("faulty", faults=[{"tool": "tydes", "type": "timeout"}])
    files = {"evals/tools.py": TOOLS, "evals/faulty.json": faulty, **tasks}
    write(pytester.path, {"evals/suite.yaml": suite(more="tools: [tools.py]\n"), **files})

    result = run(pytester)

    result.assert_outcomes(errors=len(MISSPELT) + 1)
    for number, (_, place) in enumerate(MISSPELT):
        lines = [
            f"evals/{number}.json:*: graders?1?.config.{place}",
            "*one of*tides*",
            "*",
            "*did you mean *",
        ]
        result.stdout.fnmatch_lines(lines, consecutive=True)
    result.stdout.no_fnmatch_line("*graders?0?*")
    result.stdout.fnmatch_lines(["*faults?0?.tool", "  expected: one of tides, broken", "*'tydes'"])


def test_a_tool_that_raises_shows_its_exception_in_the_reasons(pytester: pytest.Pytester) -> None:
    """The agent was told in its own way; whoever looks at a missed trial is told what broke in which line."""
    calls = [{"calls": [{"tool": "broken", "args": {"harbour": "Busan"}}] * 2}, {"text": "Sorry."}]
    files = {"evals/tools.py": TOOLS, "evals/t.json": task("t", script=calls)}
    write(pytester.path, {"evals/suite.yaml": suite(more="tools: [tools.py]\n"), **files})

    result = run(pytester)

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the tool broken raised KeyError: 'Busan' (evals/tools.py:12), 2 times*"])


def test_a_named_model_that_an_agent_never_asks_is_noted(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who names a model would believe that it had acted; its key is required before any trial."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    form = "agent: {call: own:greet}\n"
    write(
        pytester.path,
        {"evals/suite.yaml": suite(more=form), "own.py": "def greet(content):\n    return 'Mina'\n"},
    )
    write(pytester.path, {f"evals/{name}.json": task(name, script=None, wants="Mina") for name in "ab"})

    assert run(pytester, "evals", "--agent-model=openai/gpt-9").ret == 4
    monkeypatch.setenv("OPENAI_API_KEY", "sk-loopback")
    result = run(pytester, "evals", "--agent-model=openai/gpt-9")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*no model request was seen in *"])

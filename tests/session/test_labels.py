"""Tasks in which an agent should act, and such in which it had better not: precision, recall and F1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from tests.journals import finished, trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CONFTEST = """


class Clerk:
    def run(self, task_input, ctx):
        done = task_input["done"]
        if done == "broken":
            raise RuntimeError("gone")
        if done:
            (ctx.path / done).parent.mkdir(exist_ok=True)
            (ctx.path / done).write_text("Mina")
        return "Hello, Mina!"


def pytest_agenteval_register(registry):
    registry.agent("clerk", Clerk)
"""

ACTS = 'agent: clerk\nacts: {files: ["notes/**"]}\n'


def labelled(id: str, label: str, done: str, **more: Any) -> dict[str, Any]:
    """Give a task with a label, in which the agent writes this file, or none."""
    given = {"input": {"content": "Say hello to Mina.", "done": done}, "metadata": {"label": label}}
    return {**task(id), **given, **more}


TASKS = {
    "right": labelled("right", "positive", "notes/a.md"),
    "missed": labelled("missed", "positive", "elsewhere/a.md"),
    "wrong": labelled("wrong", "negative", "notes/b.md"),
    "left": labelled("left", "negative", ""),
    "broken": labelled("broken", "negative", "broken"),
    "plain": {**labelled("plain", "", "notes/c.md"), "metadata": {}},
}
EVALS = {
    "conftest.py": CONFTEST,
    "evals/suite.yaml": suite(more=ACTS),
    **{f"evals/{name}.json": each for name, each in TASKS.items()},
}
TEXT = (
    "acting: precision 0.50, recall 0.50, F1 0.50 over 4 labelled trials (1 acted rightly, 1 wrongly, "
    "1 did not and should have, 1 rightly did not); left out: 1 errored"
)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_run_says_whether_agents_acted_where_they_should(pytester: pytest.Pytester, workers: int) -> None:
    """By the files that changed, not by scores: all of these trials passed. Tasks without label count not."""
    write(pytester.path, EVALS)

    result = run(pytester, "evals", "-v", workers=workers)

    result.assert_outcomes(passed=5, errors=1)
    assert TEXT in " ".join(str(result.stdout).split())
    lines = finished(pytester.path)
    assert {name: line.get("acted") for name, line in lines.items()} == {
        "right": True,
        "missed": False,
        "wrong": True,
        "left": False,
        "broken": None,
        "plain": None,
    }
    assert [lines[name].get("label") for name in ("right", "left", "plain")] == ["positive", "negative", None]
    assert trials(pytester.path)["wrong"].label == "negative"


def test_a_report_says_it_again_and_as_json(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """All counts and figures; a suite without labels has no such key."""
    other = {"other/suite.yaml": suite("other"), "other/a.json": task("a", metadata={"label": "hard"})}
    write(pytester.path, {**EVALS, **other})
    run(pytester, "evals", "other")
    capsys.readouterr()

    assert main(["report", "latest"]) == 0
    assert "greetings acting: precision 0.50, recall 0.50, F1 0.50\n" in capsys.readouterr().out
    assert main(["report", "latest", "-v", "--json", "figures.json"]) == 0

    assert TEXT in " ".join(capsys.readouterr().out.split())
    boards = json.loads(Path("figures.json").read_text(encoding="utf-8"))["boards"]
    rows = {board["suite"]: board["rows"][0] for board in boards}
    assert "decisions" not in rows["other"]
    decisions = rows["greetings"]["decisions"]
    assert {name: decisions[name] for name in ("precision", "recall", "f1", "accuracy", "errored")} == {
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "accuracy": 0.5,
        "errored": 1,
    }


def test_a_misspelt_label_is_a_problem_and_regrading_labels_a_run(pytester: pytest.Pytester) -> None:
    """It would be left out of every figure in silence; what acting is may be said later than the run."""
    write(pytester.path, {**EVALS, "evals/suite.yaml": suite(more="agent: clerk\n")})
    assert "acting" not in str(run(pytester, "evals").stdout)
    write(pytester.path, {"evals/suite.yaml": EVALS["evals/suite.yaml"]})

    regraded = run(pytester, "evals", "-v", "--agent-regrade=latest")

    assert "precision 0.50, recall 0.50, F1 0.50 over 4" in " ".join(str(regraded.stdout).split())
    write(pytester.path, {"evals/wrong.json": labelled("wrong", "negativ", "")})
    run(pytester, "evals").stdout.fnmatch_lines(
        ["evals/wrong.json:*: metadata.label", "*expected: positive or negative", "*found: *'negativ'"]
    )

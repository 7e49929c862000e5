"""A scorecard of somebody's own after a run: its groups below the tables, and what its mistakes cost."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

SCORECARD = """
from pytest_agenteval import Metric, MetricGroup, Scorecard, Total, TotalPart


def scorecard(entries):
    scores = [grade.score for entry in entries for grade in entry.grades]
    said = Metric("said", sum(scores) / len(scores), tasks=len(scores))
    group = MetricGroup(Metric("speech", said.value, tasks=said.tasks), (said,))
    total = Total("index", said.value, None, (TotalPart("speech", said.value, 1.0, ("speech",)),))
    return Scorecard((group,), total, group_word="skill")


def pytest_agenteval_register(registry):
    registry.scorecard("own", scorecard, graders=["answer_contains"])
"""


def project(pytester: pytest.Pytester, conftest: str) -> None:
    """Write a suite with a trial that passes and one that does not."""
    write(
        pytester.path,
        {
            "conftest.py": conftest,
            "a/suite.yaml": suite(),
            "a/m.json": task("m"),
            "a/n.json": task("n", says="Hm."),
        },
    )


def test_a_conftests_scorecard_is_one_line_after_the_run(pytester: pytest.Pytester) -> None:
    """Group by group, the total last, and how to see each metric."""
    project(pytester, SCORECARD)

    brief = run(pytester)

    brief.stdout.fnmatch_lines(["skills of * with scripted: speech 0.50; index 0.50 (-v: each metric)"])


def test_talkative_runs_draw_all_of_it(pytester: pytest.Pytester, workers: int) -> None:
    """Every metric and the way to the total, whichever process tried the trials."""
    project(pytester, SCORECARD)

    whole = run(pytester, "-v", workers=workers)

    whole.stdout.fnmatch_lines(["skills of * with scripted", "  skill *", "  speech said *0.50*"])
    whole.stdout.fnmatch_lines(["  index 0.50 = 1 x speech 0.50"])


def test_a_scorecard_that_raises_costs_nothing_else(pytester: pytest.Pytester) -> None:
    """The tables and the run's place stand; one line names the scorecard, the exception and its line."""
    project(pytester, SCORECARD.replace("= [grade", "= [grade.nothing or grade"))

    result = run(pytester)

    line = next(line for line in result.outlines if line.startswith("the scorecard 'own'"))
    assert "cannot be made: AttributeError" in line
    assert any(line.startswith("run: ") for line in result.outlines)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert result.ret == 1


def test_a_scorecard_of_other_graders_is_not_asked(pytester: pytest.Pytester) -> None:
    """Where no grade has one of its labels nothing of it is imported."""
    conftest = SCORECARD.replace("answer_contains", "nobodys").replace(
        "scorecard, graders", "'no.such:x', graders"
    )
    project(pytester, conftest)

    lines = run(pytester).outlines

    assert not any(line.startswith(("skills of", "the scorecard")) or "no.such" in line for line in lines)

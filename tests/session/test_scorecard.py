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
    """The total, in the benchmark's word for it; with -v every metric and the way to the total.

    Where no grade has one of its labels nothing of it is imported.
    """
    project(pytester, SCORECARD)
    run(pytester).stdout.fnmatch_lines(["greetings index 0.50"])
    whole = run(pytester, "-v", workers=1)
    whole.stdout.fnmatch_lines(["skills of * with scripted", "  skill *", "  speech said *0.50*"])
    whole.stdout.fnmatch_lines(["  index 0.50 = 1 x speech 0.50"])

    of_others = SCORECARD.replace("answer_contains", "nobodys")
    project(pytester, of_others.replace("scorecard, graders", "'no.such:x', graders"))
    lines = run(pytester).outlines
    assert not any(line.startswith(("skills of", "the scorecard")) or "no.such" in line for line in lines)


def test_a_scorecard_that_raises_costs_nothing_else(pytester: pytest.Pytester) -> None:
    """The tables and the run's place stand; one line names the scorecard, the exception and its line."""
    project(pytester, SCORECARD.replace("= [grade", "= [grade.nothing or grade"))

    result = run(pytester)

    line = next(line for line in result.outlines if line.startswith("the scorecard 'own'"))
    assert "cannot be made: AttributeError" in line
    assert any(line.startswith("run: ") for line in result.outlines)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert result.ret == 1


NONSENSE = {
    "no scorecard": ("{'speech': 1.0}", "expected a Scorecard or None; found {'speech': 1.0}"),
    "no groups": ("Scorecard(())", "Expected `array` of length >= 1 - at `$.groups`"),
    "a number for a group": ("Scorecard((1,))", "Expected `object`, got `int` - at `$.groups[0]`"),
    "a text for a figure": (
        "Scorecard((MetricGroup(Metric('a', 'high'), ()),))",
        "Expected `float | null`, got `str` - at `$.groups[0].total.value`",
    ),
    "not a number": (
        "Scorecard((MetricGroup(Metric('a', 0.5), (Metric('b', float('nan')),)),))",
        "Expected `float | null`, got `str` - at `$.groups[0].metrics[0].value`",
    ),
    "a group twice": ("Scorecard((group, group))", "groups: 'speech' is there twice"),
    "a number for a total": ("Scorecard((group,), 5)", "Expected `object | null`, got `int` - at `$.total`"),
    "a text for notes": ("Scorecard((group,), notes='abc')", "Expected `array`, got `str` - at `$.notes`"),
}


def test_what_is_no_scorecard_costs_nothing_else(pytester: pytest.Pytester) -> None:
    """Not the run's tables, not its place, not the other scorecards: one line names it and what is wrong."""
    hook = SCORECARD.replace('"own"', '"zown"')
    function = SCORECARD[SCORECARD.index("def scorecard") :].split("def pytest_agenteval_register")[0]
    returned = 'return Scorecard((group,), total, group_word="skill")'
    for number, (made, _) in enumerate(NONSENSE.values()):
        nonsense = function.replace("def scorecard(", f"def nonsense{number}(").replace(
            returned, f"return {made}"
        )
        register = f"    registry.scorecard('bad{number}', nonsense{number}, graders=['m{number}'])\n"
        hook = f"{nonsense}{hook}{register}"
    imports = SCORECARD[: SCORECARD.index("def scorecard")]
    project(pytester, imports + hook)
    for number in range(len(NONSENSE)):
        matches = {"name": "answer_matches", "label": f"m{number}", "config": {"patterns": ["Mina"]}}
        own = {
            f"b{number}/suite.yaml": suite(f"b{number}"),
            f"b{number}/m.json": task("m", graders=[matches]),
        }
        write(pytester.path, own)

    result = run(pytester)

    output = " ".join(result.stdout.str().split())
    for number, (_, mistake) in enumerate(NONSENSE.values()):
        assert f"the scorecard 'bad{number}' cannot be drawn: {mistake}" in output
    assert " greetings index 0.50 " in output
    assert any(line.startswith("run: ") for line in result.outlines)
    assert "Traceback" not in result.stdout.str() + result.stderr.str()

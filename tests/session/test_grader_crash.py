"""A grader of the user's that crashes: never a pass, told wherever endings are told, and graded again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.records.evidence import CRASH
from tests.journals import finished, junit, properties, trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CONFTEST = """
def words(evidence):
    return {}["no such key"]


class Broken:
    def grade(self, evidence):
        return words(evidence)


class Lenient:
    def grade(self, evidence):
        return "Mina" in evidence.answer


def pytest_agenteval_register(registry):
    registry.grader("broken", Broken)
    registry.grader("lenient", Lenient)
    registry.grader_group("pair", [("lenient", "a friend"), ("broken", "a foe")])
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    """Tasks of a regression suite: a grader crashes, one of a group does, and none."""
    hello = task("t")["graders"]
    write(
        pytester.path,
        {
            "pytest.ini": "[pytest]\n",
            "conftest.py": CONFTEST,
            "evals/suite.yaml": suite(),
            "evals/all.yaml": [
                task("alone", graders=[{"name": "broken"}]),
                task("beside", graders=[*hello, {"name": "pair"}]),
                task("good", graders=[{"name": "lenient"}]),
            ],
        },
    )
    return pytester.path


def test_a_crashing_grader_is_an_error_wherever_endings_are_told(
    pytester: pytest.Pytester, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ERROR with cause and traceback in terminal, JUnit, job summary and record, with the other grades."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    result = run(pytester, "evals", "-v", "--junitxml=j.xml", workers=1)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines_random(
        [
            "*grader_crash: a foe raised KeyError: 'no such key'",
            '*conftest.py", line 8, in grade',
            '*return {}?"no such key"?',
            "  answer_contains  1.00",
            "  a friend         1.00",
            "  a foe            crashed: raised KeyError: 'no such key'",
            "*2 errored, in no average: 2 grader_crash",
        ]
    )
    result.stdout.no_fnmatch_line("*undecided*")
    result.stdout.no_fnmatch_line("*in ask")

    ended = finished(project)["beside"]
    assert (ended["ending"], ended["score"], ended["cause"]) == ("errored", None, CRASH)
    assert ended["traceback"].endswith("KeyError: 'no such key'\n")
    beside = trials(project)["beside"]
    assert [grade.score for grade in beside.grades] == [1.0, 1.0, None]
    assert beside.traceback.splitlines()[1].endswith("line 8, in grade")
    case = junit(project / "j.xml")["beside[scripted-1]"]
    (error,) = case.findall("error")
    assert "grader_crash: a foe raised KeyError" in error.attrib["message"]
    assert "in words" in (error.text or "")
    assert properties(case)["agenteval.grade.a friend"] == "1.0000"
    assert properties(case)["agenteval.grade.a foe"] == "crashed"
    summary = (project / "summary.md").read_text(encoding="utf-8")
    assert "**ERROR** greetings/beside" in summary
    assert 'return {}["no such key"]' in summary

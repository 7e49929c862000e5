"""Every ending of design.md, section 2: as pytest shows it, as the journal tells it, as JUnit reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from pytest_agenteval.records.evidence import CRASH
from pytest_agenteval.records.trial import Trial
from tests.journals import finished, junit, properties, trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CAPABILITY = "name: demo\nkind: capability\ndefaults: {model: scripted}\n"
TWO_FIFTHS = [
    {"name": "answer_contains", "label": "greeting", "weight": 2, "config": {"text": "Hello"}},
    {"name": "answer_contains", "label": "farewell", "weight": 3, "config": {"text": "Goodbye"}},
]
AGENTS = """
import sys

from pytest_agenteval.text.errors import FixtureBroken
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tools.tool import Tool


class Unsure:
    def grade(self, evidence):
        return Grade("unsure", None, "could not tell")


class Crashing:
    async def run(self, task_input, ctx):
        (ctx.path / "note.md").write_text("written before the crash")
        raise ValueError("the agent's own fault")


class Exiting:
    def run(self, task_input, ctx):
        sys.exit("enough")


class Exhausted:
    def run(self, task_input, ctx):
        return next(iter(()))


class Silent:
    async def run(self, task_input, ctx):
        pass


class Swallowing:
    tools = ("search",)

    async def run(self, task_input, ctx):
        from pytest_agenteval.records.transcript import ToolCall

        try:
            await ctx.tools.call(ToolCall("c", 1, 0, "search", {"q": "Mina"}))
        except Exception as swallowed:
            return Answer("Hello, Mina!")


def pytest_agenteval_register(registry):
    registry.grader("unsure", Unsure)
    for agent in (Crashing, Exiting, Exhausted, Silent, Swallowing):
        registry.agent(agent.__name__.lower(), agent)
    registry.tool(Tool(ToolSpec("search", taped=True), lambda args: {"found": []}))
"""


NEARLY = [{**TWO_FIFTHS[0], "weight": 996}, {**TWO_FIFTHS[1], "weight": 4}]
UNSURE = {"name": "unsure"}
SAYS_NONE = [{"name": "answer_contains", "config": {"text": "None"}}]
CAUSES = {
    "crashing": ("crash", "ValueError: the agent's own fault"),
    "exiting": ("crash", "SystemExit: enough"),
    "exhausted": ("crash", "RuntimeError: the function raised StopIteration"),
    "swallowing": ("cassette_miss", "search(q='Mina')"),
}
OTHER_KINDS = {"regression": "kind: regression\n", "mixed": "kind: mixed\n", "unsaid": ""}


@dataclass
class Ended:
    """A run of every ending: what it printed, its journal, its trials and its JUnit cases, by task."""

    result: pytest.RunResult
    lines: dict[str, dict[str, Any]]
    trials: dict[str, Trial]
    cases: dict[str, Element]


RUN: list[Ended] = []


@pytest.fixture
def ended(pytester: pytest.Pytester) -> Ended:
    """Carried out once."""
    if not RUN:
        able = [
            task("good", graders=[*task("t")["graders"], UNSURE]),
            task("bad", graders=TWO_FIFTHS),
            task("hair", graders=NEARLY),
            *(task(name, agent=name) for name in CAUSES),
            task("undecided", graders=[UNSURE]),
            task("required", graders=[{**UNSURE, "require": True}, *task("t")["graders"]]),
            task("silent", agent="silent", graders=SAYS_NONE),
        ]
        files = {"conftest.py": AGENTS, "evals/able/suite.yaml": CAPABILITY, "evals/able/tasks.yaml": able}
        for name, kind in OTHER_KINDS.items():
            files[f"evals/{name}/suite.yaml"] = f"name: {name}\n{kind}"
            files[f"evals/{name}/tasks.yaml"] = [task(f"bad_{name}", graders=TWO_FIFTHS)]
        write(pytester.path, {**files, "greet/task.json": task("bad_alone", graders=TWO_FIFTHS)})
        result = run(pytester, "evals", "greet", "--agent-model=scripted", "-v", "--junitxml=j.xml")
        root = pytester.path
        cases = {name.partition("[")[0]: case for name, case in junit(root / "j.xml").items()}
        RUN.append(Ended(result, finished(root), trials(root), cases))
    return RUN[0]


def test_each_ending_is_counted_by_pytest(ended: Ended) -> None:
    """A miss is an expected failure; a run with errors and failures has exit status 1, and no traceback."""
    ended.result.assert_outcomes(passed=1, xfailed=3, failed=4, errors=6)
    assert ended.result.ret == pytest.ExitCode.TESTS_FAILED
    ended.result.stdout.fnmatch_lines(["*6 errored, in no average: 3 crash, 2 ungraded, 1 cassette_miss*"])


def test_a_trial_whose_grades_reach_their_thresholds_has_passed(ended: Ended) -> None:
    """An undecided grade is left out of the score, and takes nothing from a pass.

    A vacuous pass is none: nothing decided, a required grade undecided, or an answer made of Python's None.
    """
    ended.result.stdout.fnmatch_lines(["*good?scripted-1? PASSED 1.00*"])
    line = ended.lines["good"]
    assert (line["ending"], line["score"]) == ("passed", 1.0)
    assert [grade["score"] for grade in line["grades"]] == [1.0, None]
    for name in ("undecided", "required"):
        line = ended.lines[name]
        assert (line["ending"], line["score"], line["cause"]) == ("errored", None, "ungraded")
        assert "could not tell" in line["message"]
    assert (ended.lines["silent"]["ending"], ended.trials["silent"].outcome.answer.text) == ("missed", "")


def test_a_miss_in_a_capability_suite_is_an_expected_failure(ended: Ended) -> None:
    """MISSED with the score, and JUnit names the worst grader and why; 0.996 is never called a full score."""
    for name, says in (
        ("bad", "0.40: farewell 0.00: answer lacks 'Goodbye'"),
        ("hair", "0.99: farewell"),
    ):
        ended.result.stdout.fnmatch_lines([f"*{name}?scripted-1? MISSED {says[:4]}*"])
        (skipped,) = ended.cases[name].findall("skipped")
        assert skipped.attrib["type"] == "pytest.xfail"
        assert skipped.attrib["message"].startswith(f"MISSED {says}")


def test_below_the_threshold_is_a_failure_outside_capability(ended: Ended) -> None:
    """In a regression or mixed suite, in one that says no kind, and without a suite no miss is expected."""
    for name in (*OTHER_KINDS, "alone"):
        ended.result.stdout.fnmatch_lines([f"*bad_{name}?scripted-1? FAILED 0.40*"])
        (failure,) = ended.cases[f"bad_{name}"].findall("failure")
        assert "not met: answer contains 'Goodbye'" in str(failure.text)
        assert "Traceback" not in str(failure.text)
        assert ended.lines[f"bad_{name}"]["ending"] == "failed"


def test_what_breaks_is_an_error_of_its_own_cause(ended: Ended) -> None:
    """Whatever an agent lets out, or swallows, its trial alone is errored: in no average, error in JUnit.

    A crash names the line that raised, and leaves its workspace in the record; a miss, the command to record.
    """
    for name, (cause, message) in CAUSES.items():
        trial = ended.trials[name]
        assert (trial.ending, trial.score, trial.cause) == ("errored", None, cause)
        assert message in trial.message
        assert bool(trial.traceback) == (cause == "crash")
        (error,) = ended.cases[name].findall("error")
        assert cause in error.attrib["message"]
    assert ended.trials["crashing"].outcome.after.text("note.md") == "written before the crash"
    ended.result.stdout.fnmatch_lines(["*crash: ValueError: the agent's own fault*", "*conftest.py*in run*"])
    ended.result.stdout.fnmatch_lines(["*-k swallowing --agent-record=new_episodes*"])
    assert "Traceback" not in str(ended.cases["swallowing"].findtext("error"))


def test_a_starting_tree_that_cannot_be_built_is_an_error(pytester: pytest.Pytester) -> None:
    """A fixture that went away after collection: errored with cause fixture, in one line.

    So is an oracle without turns, which has nothing to act out: a pass would prove nothing.
    """
    going = "import shutil\n\ndef pytest_collection_finish(session):\n    shutil.rmtree('fixtures/base')\n"
    broken = task("broken", agent="crashing", input={"content": "hi", "base_fixture": "base"})
    tasks = {"evals/suite.yaml": CAPABILITY, "evals/tasks.yaml": [broken, task("unsolved")]}
    write(
        pytester.path, {"conftest.py": AGENTS, "fixtures/base/a.md": "a", "evals/conftest.py": going, **tasks}
    )

    result = run(pytester, "evals", "--agent-model=oracle", "-v")

    result.assert_outcomes(errors=2)
    causes = {name: line["cause"] for name, line in finished(pytester.path).items()}
    assert causes == {"broken": "fixture", "unsolved": "nothing_to_act_out"}
    result.stdout.fnmatch_lines(["*no reference turns: add `reference_solution.turns`*"])
    result.stdout.no_fnmatch_line("*Traceback*")


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


CRASHING = """
def deeper(text):
    return {}["no " + text]


class Crashing:
    def run(self, task_input, ctx):
        return deeper(task_input["content"])


def pytest_agenteval_register(registry):
    registry.agent("crashing", Crashing)
"""
BUCKET = "greeting_people_by_name_politely"
SAID_CAPABILITY = "name: capability\nkind: capability\ndefaults: {model: scripted, trials_per_run: 2}\n"


def said_project(pytester: pytest.Pytester) -> None:
    """Write a suite with a miss in a bucket of a long name, and one with a failure and a crash."""
    write(
        pytester.path,
        {
            "conftest.py": CRASHING,
            f"a/{BUCKET}/m.json": task("m", says="Hm."),
            "a/suite.yaml": SAID_CAPABILITY,
            "a/other/n.json": task("n"),
            "b/suite.yaml": suite(),
            "b/f.json": task("f", says="Hm."),
            "b/c.json": task("c", agent="crashing"),
        },
    )


def test_a_miss_says_its_ending_once(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """``MISSED 0.00 (reason)`` under -v and in the summary; JUnit's message has word and score."""
    monkeypatch.setenv("COLUMNS", "160")
    said_project(pytester)

    result = run(pytester, "-v", "-rx", "--junitxml=junit.xml", "a", workers=1)

    lines = [line for line in result.outlines if "MISSED" in line and "m.json::" in line]
    assert len(lines) >= 3
    for line in lines:
        assert line.count("MISSED 0.00") == 1
        assert line.count("answer_contains") == (0 if line.startswith("[gw") else 1)  # xdist says no reason
    xml = (pytester.path / "junit.xml").read_text(encoding="utf-8")
    assert xml.count('type="pytest.xfail" message="MISSED 0.00: answer_contains 0.00: answer lacks') == 2


def test_a_traceback_is_printed_once_and_begins_with_the_users_code(pytester: pytest.Pytester) -> None:
    """Under -vv too, where pytest prints a whole text again in its short summary."""
    said_project(pytester)

    result = run(pytester, "-vv", "b")

    out = str(result.stdout)
    assert out.count("Traceback (most recent call last)") == 1
    assert out.count("answer: Hm.") == 1
    first = re.search(r'Traceback .*\n +File "([^"]+)", line (\d+), in run', out)
    assert first is not None
    assert first[1].endswith("conftest.py")
    assert "pytest_agenteval/engine" not in out
    result.stdout.fnmatch_lines(["ERROR b/c.json::c* - crash: KeyError: 'no Say hello to Mina.'"])
    result.stdout.fnmatch_lines(["FAILED 0.00 b/f.json::f* - answer_contains 0.00: answer lacks*"])

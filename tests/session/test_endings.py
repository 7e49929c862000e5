"""Every ending of design.md, section 2: as pytest shows it, as the journal tells it, as JUnit reads it."""

from __future__ import annotations

import pytest

from tests.journals import finished, junit, trials
from tests.suites import task, write

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


def run(
    pytester: pytest.Pytester, suite: str, *tasks: object, args: tuple[str, ...] = ()
) -> pytest.RunResult:
    """Run scripted tasks, with agents and graders that misbehave at hand."""
    write(pytester.path, {"conftest.py": AGENTS, "evals/suite.yaml": suite, "evals/tasks.yaml": list(tasks)})
    return pytester.runpytest_inprocess("evals", "-v", "--junitxml=j.xml", *args)


def test_a_trial_whose_grades_reach_their_thresholds_has_passed(pytester: pytest.Pytester) -> None:
    """An undecided grade is left out of the score, and takes nothing from a pass."""
    graders = [*task("t")["graders"], {"name": "unsure"}]
    result = run(pytester, CAPABILITY, task("good", graders=graders))
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*good?scripted-1? PASSED 1.00*"])
    ended = finished(pytester.path)["good"]
    assert (ended["ending"], ended["score"]) == ("passed", 1.0)
    assert [grade["score"] for grade in ended["grades"]] == [1.0, None]


def test_a_miss_in_a_capability_suite_is_an_expected_failure(pytester: pytest.Pytester) -> None:
    """Exit status 0, MISSED with the score, and JUnit names the worst grader and why."""
    result = run(pytester, CAPABILITY, task("bad", graders=TWO_FIFTHS))
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*bad?scripted-1? MISSED 0.40*"])
    (skipped,) = junit(pytester.path / "j.xml")["bad[scripted-1]"].findall("skipped")
    assert skipped.attrib["type"] == "pytest.xfail"
    assert skipped.attrib["message"].startswith("MISSED 0.40: farewell 0.00: no: answer contains 'Goodbye'")


def test_a_miss_by_a_hair_is_never_called_a_full_score(pytester: pytest.Pytester) -> None:
    """The word beside the item, its reason and JUnit say the same figure as the table."""
    nearly = [{**TWO_FIFTHS[0], "weight": 996}, {**TWO_FIFTHS[1], "weight": 4}]
    result = run(pytester, CAPABILITY, task("bad", graders=nearly))
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*bad?scripted-1? MISSED 0.99*"])
    result.stdout.no_fnmatch_line("*MISSED 1.00*")
    (skipped,) = junit(pytester.path / "j.xml")["bad[scripted-1]"].findall("skipped")
    assert skipped.attrib["message"].startswith("MISSED 0.99: farewell 0.00")


@pytest.mark.parametrize(
    "suite", ["name: demo\nkind: regression\n", "name: demo\nkind: mixed\n", "name: demo\n"]
)
def test_below_the_threshold_is_a_failure_outside_capability(pytester: pytest.Pytester, suite: str) -> None:
    """A regression suite, a mixed one and one that says no kind: FAILED, exit status 1, no traceback."""
    result = run(pytester, suite, task("bad", graders=TWO_FIFTHS), args=("--agent-model=scripted",))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*bad?scripted-1? FAILED 0.40*", "*no: answer contains 'Goodbye'*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert finished(pytester.path)["bad"]["ending"] == "failed"


def test_a_task_without_a_suite_fails_below_its_threshold(pytester: pytest.Pytester) -> None:
    """Nobody said that a miss is to be expected."""
    write(pytester.path, {"greet/task.json": task("bad", graders=TWO_FIFTHS)})
    result = pytester.runpytest_inprocess("greet", "--agent-model=scripted", "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*FAILED 0.40*"])


@pytest.mark.parametrize(
    ("name", "cause", "message"),
    [
        ("crashing", "crash", "ValueError: the agent's own fault"),
        ("exiting", "crash", "SystemExit: enough"),
        ("exhausted", "crash", "RuntimeError: the function raised StopIteration"),
        ("swallowing", "cassette_miss", "search(q='Mina')"),
    ],
)
def test_what_breaks_is_an_error_of_its_own_cause(
    pytester: pytest.Pytester, name: str, cause: str, message: str
) -> None:
    """Whatever an agent lets out, or swallows, its trial alone is errored: in no average, error in JUnit."""
    result = run(pytester, CAPABILITY, task("broken", agent=name), task("good"))
    result.assert_outcomes(errors=1, passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    ended = trials(pytester.path)["broken"]
    assert (ended.ending, ended.score, ended.cause) == ("errored", None, cause)
    assert message in ended.message
    assert bool(ended.traceback) == (cause == "crash")
    (error,) = junit(pytester.path / "j.xml")["broken[scripted-1]"].findall("error")
    assert cause in error.attrib["message"]
    result.stdout.fnmatch_lines(["*1 of 1 task passed*", "*1 errored, in no average: 1 " + cause])


def test_a_crashed_agent_leaves_its_outcome_behind(pytester: pytest.Pytester) -> None:
    """The workspace as the crash left it is in the record, and the traceback names the line that raised."""
    result = run(pytester, CAPABILITY, task("broken", agent="crashing"))
    ended = trials(pytester.path)["broken"]
    assert ended.outcome.after.text("note.md") == "written before the crash"
    result.stdout.fnmatch_lines(["*crash: ValueError: the agent's own fault*", "*conftest.py*in run*"])


def test_a_cassette_miss_names_the_way_to_record(pytester: pytest.Pytester) -> None:
    """The command that records the missing call is told, and no traceback."""
    result = run(pytester, CAPABILITY, task("broken", agent="swallowing"))
    result.stdout.fnmatch_lines(["*pytest evals/tasks.yaml -k broken --agent-record=new_episodes*"])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_a_starting_tree_that_cannot_be_built_is_an_error(pytester: pytest.Pytester) -> None:
    """A fixture that went away after collection: errored with cause fixture, in one line."""
    going = "import shutil\n\ndef pytest_collection_finish(session):\n    shutil.rmtree('fixtures/base')\n"
    broken = task("broken", agent="crashing", input={"content": "hi", "base_fixture": "base"})
    write(pytester.path, {"fixtures/base/a.md": "a", "evals/conftest.py": going})
    result = run(pytester, CAPABILITY, broken)
    result.assert_outcomes(errors=1)
    assert finished(pytester.path)["broken"]["cause"] == "fixture"
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    "graders",
    [[{"name": "unsure"}], [{"name": "unsure", "require": True}, *task("t")["graders"]]],
    ids=["all undecided", "a required one undecided"],
)
def test_what_cannot_be_graded_is_errored_as_ungraded(
    pytester: pytest.Pytester, graders: list[object]
) -> None:
    """A vacuous pass is none: nothing decided, or a required grade undecided."""
    result = run(pytester, CAPABILITY, task("unclear", graders=graders))
    result.assert_outcomes(errors=1)
    ended = finished(pytester.path)["unclear"]
    assert (ended["ending"], ended["score"], ended["cause"]) == ("errored", None, "ungraded")
    assert "could not tell" in ended["message"]


def test_an_oracle_without_turns_is_errored(pytester: pytest.Pytester) -> None:
    """There is nothing to act out; a pass would prove nothing."""
    result = run(pytester, CAPABILITY, task("unsolved"), args=("--agent-model=oracle",))
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*nothing to act out*no reference_solution.turns*"])


def test_an_agent_that_returns_nothing_has_an_empty_answer(pytester: pytest.Pytester) -> None:
    """No answer is made up from Python's None: here it would even pass."""
    graders = [{"name": "answer_contains", "config": {"text": "None"}}]
    result = run(pytester, CAPABILITY, task("silent", agent="silent", graders=graders))
    result.assert_outcomes(xfailed=1)
    assert trials(pytester.path)["silent"].outcome.answer.text == ""

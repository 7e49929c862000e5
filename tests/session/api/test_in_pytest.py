"""Suites in Python, the fixture and the mark: items and trials like those of task files, in one run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.json_values import text_digest
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import collected_ids, run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

USER_TESTS = (Path(__file__).parents[2] / "face" / "user_tests.py").read_text("utf-8")
REFUND = ReplyPlan(text="Your refund is on its way.")
MARKED = """
import pytest
from pytest_agenteval import suite

runs = []

@pytest.mark.agenteval(repetitions=4, threshold={threshold})
def test_often():
    runs.append(1)
    assert len(runs) != 2, "the second is wrong"

@pytest.mark.agenteval
def test_broken():
    raise ValueError("boo")

@pytest.mark.agenteval
def test_skipped():
    pytest.skip("not today")

def test_plain():
    assert True
"""


def endings(root: Path) -> dict[str, list[str]]:
    """Give how the trials of the latest run ended, by task."""
    trials: dict[str, list[str]] = {}
    for entry in load_run(root / ".agenteval/runs/latest").entries:
        trials.setdefault(entry.key.task, []).append(entry.ending)
    return trials


SHORTEST = """
from pytest_agenteval import suite


def polite(evidence):
    return "please" in evidence.answer

support = suite("support", agent="bot:answer", graders=[polite], tasks=[
    {"input": "Where is my order?"},
    {"input": {"content": "Lost!"}, "graders": [{"name": "answer_contains", "config": {"text": "wait"}}]},
    {"id": "late", "input": "It is late."},
])
"""


def test_agent_grader_and_tasks_fit_in_twelve_lines(pytester: pytest.Pytester) -> None:
    """A module has a suite with a grader of its own; tasks without an id have the first words as one."""
    assert len(SHORTEST.strip().splitlines()) <= 12
    bot = "def answer(question):\n    return 'please wait' if 'order' in question else 'wait'\n"
    write(pytester.path, {"bot.py": bot, "tests/test_support.py": SHORTEST, "pytest.ini": "[pytest]\n"})
    run(pytester, "tests").assert_outcomes(passed=1, failed=2)
    scores = {
        entry.key.task: entry.score for entry in load_run(pytester.path / ".agenteval/runs/latest").entries
    }
    assert scores == {"where_is_my_order": 1.0, "lost": 0.5, "late": 0.0}


def test_what_a_user_writes_runs_as_it_is_typed(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests that type checkers pass (see .ci/run) record once, and replay with the server gone."""
    write(pytester.path, {"tests/test_user.py": USER_TESTS})
    with ModelServer([REFUND, REFUND]) as server:
        monkeypatch.setenv("MODEL_URL", server.openai_base.removesuffix("/v1"))
        first = run(pytester, "tests", "--agent-record=once", "--agent-record-chat=once")
    first.assert_outcomes(passed=4)
    replies = sorted(
        path.name for path in pytester.path.glob("cassettes/tests/test_user/test_refund/refund.chat/*")
    )
    assert replies == ["own-1.yaml", "own-2.yaml"]
    result = run(pytester, "tests", "-v", workers=1)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["weather?own? *2 of 2 tasks*", "tests/test_user.py?own: gpt-5-mini? *3 of 3 tasks*"]
    )
    assert endings(pytester.path)["test_refund"] == ["passed", "passed"]
    latest = load_run(pytester.path / ".agenteval/runs/latest")
    (entry,) = [each for each in latest.entries if (each.key.task, each.key.repetition) == ("test_refund", 2)]
    trial = latest.trial(entry)
    assert [message.content for message in trial.transcript.messages] == ["I want my money back", REFUND.text]


def test_a_suite_in_python_is_chosen_as_files_are(pytester: pytest.Pytester) -> None:
    """Its items are found by -k, by their ids and by their marks, and each stands on its task's line."""
    write(pytester.path, {"tests/test_user.py": USER_TESTS})
    node = "tests/test_user.py::weather::oslo[own-1]"
    assert collected_ids(pytester, "tests", "-k", "oslo") == [node]
    assert collected_ids(pytester, node) == [node]
    assert collected_ids(pytester, "tests", "-m", "agenteval and not fast") == [
        "tests/test_user.py::weather::lima[own-1]",
        "tests/test_user.py::test_refund",
    ]


def test_everything_wrong_with_a_suite_in_python_is_told_with_its_lines(pytester: pytest.Pytester) -> None:
    """Tasks, graders, rows and keys of a suite are read as strictly as its file would be."""
    code = """from pytest_agenteval import Task, suite
tasks = [
    Task("a", "x", graders=[{"name": "answer_contain"}]),
    Task("a", "x", graders=[lambda evidence: 1.0]),
    Task("b c", "x", graders=[lambda evidence: 1.0]),
]
shop = suite("shop", tasks=tasks)
"""
    write(pytester.path, {"tests/test_shop.py": code})
    result = run(pytester, "tests")
    result.stdout.fnmatch_lines(
        ["tests/test_shop.py:4: id", "*'a', which the task on line 3*", "tests/test_shop.py:5: id"]
    )
    write(
        pytester.path,
        {
            "tests/test_shop.py": code.replace(
                'Task("a", "x", graders=[l', 'Task("c", "x", graders=[l'
            ).replace('"b c"', '"b"')
        },
    )
    run(pytester, "tests").stdout.fnmatch_lines(["tests/test_shop.py:3: graders?0?.name"])
    write(pytester.path, {"tests/test_shop.py": code.replace("=tasks", "=[]")})
    run(pytester, "tests").stdout.fnmatch_lines(["tests/test_shop.py:7: tasks"])


@pytest.mark.parametrize(
    ("threshold", "outcome", "ending"), [(0.75, "passed", "missed"), (1.0, "failed", "failed")]
)
def test_a_marked_test_passes_where_enough_of_its_repetitions_do(
    pytester: pytest.Pytester, threshold: float, outcome: str, ending: str
) -> None:
    """The threshold decides; each repetition is a trial, what broke errs, what was skipped is none."""
    write(pytester.path, {"test_marked.py": MARKED.format(threshold=threshold)})
    result = run(pytester)
    wanted = {"passed": 1, "failed": 1, "skipped": 1}
    wanted[outcome] += 1
    result.assert_outcomes(**wanted)
    trials = endings(pytester.path)
    assert trials == {"test_often": ["passed", ending, "passed", "passed"], "test_broken": ["errored"]}
    if outcome == "failed":
        result.stdout.fnmatch_lines(["*3 of 4 repetitions passed, threshold 1;*"])


def test_what_a_mark_cannot_say_is_refused(pytester: pytest.Pytester) -> None:
    """An argument that nobody reads ends the run before anything is tried."""
    for mark, said in (
        ("repetition=3", "found repetition="),
        ("3", "found 3"),
        ("repetitions=0", "1 or more"),
        ("threshold=2", "from 0 to 1"),
    ):
        write(pytester.path, {"test_marked.py": MARKED.replace("repetitions=4, threshold={threshold}", mark)})
        result = run(pytester)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert said in result.stderr.str()


EDGES = """
import pytest
from pytest_agenteval import suite

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
@pytest.mark.agenteval(repetitions=2)
async def test_coroutine(agenteval):
    trial = await agenteval.arun({"input": "hi"}, agent=lambda question: question)
    assert trial.outcome.answer.text == "hi"

@pytest.mark.parametrize("town", ["Oslo", "Lima/Callao", "Lima Callao"])
class TestTowns:
    def test_town(self, agenteval, town):
        for _ in range(2):
            trial = agenteval.run({"input": "x", "graders": [fine]}, agent=lambda question: town)
            assert trial.outcome.answer.text == town

def fine(evidence):
    return 1.0

table = suite("table", tasks={"rows": "rows.csv", "input": "q", "graders": [fine]})
"""


def test_coroutines_classes_parameters_and_rows(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every test has trials of its own, by names that ``agenteval show`` finds; a regrade tries none."""
    write(pytester.path, {"tests/test_edges.py": EDGES, "tests/rows.csv": "id,q\none,Oslo\n"})
    run(pytester, "-p", "anyio", "tests").assert_outcomes(passed=5)
    towns = {task: ends for task, ends in endings(pytester.path).items() if "town" in task}
    assert towns == {
        f"TestTowns.test_town_{town}{again}": ["passed"]
        for town in ("Oslo", *(f"Lima_Callao-{text_digest(f'Lima{mark}Callao]')[:8]}" for mark in "/ "))
        for again in ("", "-2")
    }
    assert main(["show", "tests/test_edges.py::table::one[rules-1]"]) == 0
    assert main(["show", "tests/test_edges.py::TestTowns::test_town_Oslo-2"]) == 0
    run(pytester, "-p", "anyio", "tests", "--agent-regrade=latest").assert_outcomes(passed=1, skipped=4)


def test_plain_tests_leave_no_run(pytester: pytest.Pytester) -> None:
    """Where neither fixture nor mark is used nothing of evals begins."""
    write(pytester.path, {"test_plain.py": "def test_plain(): pass\n"})
    run(pytester).assert_outcomes(passed=1)
    assert not (pytester.path / ".agenteval").exists()

"""JUnit files of whole runs: each trial's score and place, in every family and for every reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_agenteval.cli.main import main
from tests.journals import junit, properties
from tests.junit_readers import dorny, gitlab, mikepenz
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TASKS = """\
- id: good
  input: {content: hi}
  script: [{text: Hello}]
  graders: [{name: answer_contains, config: {text: Hello}}]
- id: bad
  input: {content: hi}
  script: [{text: Hello}]
  graders:
    - {name: answer_contains, label: greeting, config: {text: Hello}}
    - {name: answer_contains, label: farewell, config: {text: Goodbye}}
- id: broken
  input: {content: hi}
  graders: [{name: answer_contains, config: {text: Hello}}]
"""
FAILS = """{
  "id": "fails",
  "input": {"content": "hi"},
  "script": [{"text": "Hello"}],
  "graders": [
    {"name": "answer_contains", "config": {"text": "Goodbye"}}
  ]
}"""
FILES = {
    "evals/suite.yaml": "name: demo\nkind: capability\n",
    "evals/tasks.yaml": TASKS,
    "evals/strict/suite.yaml": "name: strict\nkind: regression\n",
    "evals/strict/task.json": FAILS,
}
PLACES = {
    "good[scripted-1]": ("evals/tasks.yaml", "1"),
    "bad[scripted-1]": ("evals/tasks.yaml", "10"),
    "broken[scripted-1]": ("evals/tasks.yaml", "11"),
    "fails[scripted-1]": ("evals/strict/task.json", "6"),
}


def junit_file(pytester: pytest.Pytester, *args: str, workers: int = 0) -> Path:
    """Give the JUnit file of a run with a pass, a miss, a failure and an error."""
    write(pytester.path, FILES)
    result = run(pytester, "evals", "--agent-model=scripted", "--junitxml=j.xml", *args, workers=workers)
    result.assert_outcomes(passed=1, xfailed=1, failed=1, errors=1)
    return pytester.path / "j.xml"


@pytest.mark.parametrize(("workers", "family"), [(0, "xunit1"), (1, "xunit2")])
def test_each_case_names_the_line_of_what_it_missed(
    pytester: pytest.Pytester, workers: int, family: str
) -> None:
    """The grader's line, counted from 1, else the task's; pytest drops both in xunit2, and counts from 0."""
    cases = junit(junit_file(pytester, "-o", f"junit_family={family}", workers=workers))

    assert {name: (case.get("file"), case.get("line")) for name, case in cases.items()} == PLACES


def told(file: Path) -> dict[str, Any]:
    """Give all that a file says, but for times, the machine's name and the order of cases."""
    (suite,) = ElementTree.parse(file).getroot()
    changing = ("time", "timestamp", "hostname")
    attributes = {name: value for name, value in suite.attrib.items() if name not in changing}
    cases = {
        name: (
            {key: value for key, value in case.attrib.items() if key != "time"},
            properties(case),
            [(child.tag, child.attrib, child.text) for child in case if child.tag != "properties"],
        )
        for name, case in junit(file).items()
    }
    told = {"suite": attributes, "properties": properties(suite), "cases": cases}
    return json.loads(json.dumps(told))  # tuples are lists


def test_a_stored_run_gives_the_same_file(pytester: pytest.Pytester) -> None:
    """The same cases, words, properties and places, at the run's end and from its folder later on."""
    junit_file(pytester)
    options = ("--agent-baseline=latest", "--agent-gate=score=0.9", "--agent-report=mine.xml")
    file = told(junit_file(pytester, *options, workers=1))
    assert file["properties"]["agenteval.verdict"].startswith("demo: cannot tell")
    assert file["properties"]["agenteval.gate"].startswith("broken: ")
    assert told(pytester.path / "mine.xml") == file

    assert main(["report", str(pytester.path / ".agenteval/runs/latest"), "-o", "later.xml"]) == 0
    later = told(pytester.path / "later.xml")
    folder = later["properties"]["agenteval.run"]
    assert json.loads(json.dumps(later).replace(folder, file["properties"]["agenteval.run"])) == file


def test_readers_find_place_ending_and_reason(pytester: pytest.Pytester) -> None:
    """Misses are skipped everywhere, failures and errors are annotated at the line, with the reason."""
    file = junit_file(pytester)
    tracked = ["task.json", "evals/other/task.json", *FILES, "deep/evals/other/tasks.yaml"]
    statuses = ("success", "skipped", "failed", "failed")
    reason = "FAILED 0.00: answer_contains 0.00: answer lacks 'Goodbye'"
    cause = 'failed on setup with "nothing_to_act_out: the task has no'
    names = ("good[scripted-1]", "bad[scripted-1]", "fails[scripted-1]", "broken[scripted-1]")

    by_dorny = dorny(file, tracked)
    assert tuple(by_dorny[name].status for name in names) == statuses
    assert by_dorny[names[2]][2:4] == ("evals/strict/task.json", 6)
    assert by_dorny[names[3]][2:4] == ("evals/tasks.yaml", 11)
    assert by_dorny[names[2]].message.startswith(reason)
    by_mikepenz = mikepenz(file)
    assert tuple(by_mikepenz[name].status for name in names) == ("success", "skipped", "failure", "failure")
    assert {name: (case.path, str(case.line)) for name, case in by_mikepenz.items()} == PLACES
    assert by_mikepenz[names[2]].message.startswith(reason)
    assert by_mikepenz[names[3]].message.startswith(cause)
    by_gitlab = gitlab(file)
    assert tuple(by_gitlab[name].status for name in names) == ("success", "skipped", "failed", "error")
    assert {name: case.path for name, case in by_gitlab.items()} == {
        name: path for name, (path, _) in PLACES.items()
    }
    assert by_gitlab[names[1]].message.startswith("MISSED 0.50: farewell 0.00: answer lacks ")


GRADERS = [
    {"name": "answer_contains", "label": "greeting", "weight": 2, "config": {"text": "Hello"}},
    {"name": "answer_contains", "label": "farewell", "weight": 3, "config": {"text": "Goodbye"}},
]
OF_THE_USER = """
import pytest


@pytest.fixture(scope="session", autouse=True)
def site(record_testsuite_property):
    record_testsuite_property("site", "Seoul")


def pytest_runtest_setup(item):
    item.user_properties.append(("shard", "7"))
"""


@pytest.fixture(params=[(1, "xunit1"), (0, "xunit2")], ids=lambda each: f"{each[0]}-{each[1]}")
def cases(pytester: pytest.Pytester, request: pytest.FixtureRequest) -> dict[str, ElementTree.Element]:
    """The test cases of a run with a pass, a miss and an error, two trials each; of both families."""
    workers, family = request.param
    write(
        pytester.path,
        {
            "evals/suite.yaml": "name: demo\nkind: capability\ndefaults: {trials_per_run: 2}\n",
            "evals/conftest.py": OF_THE_USER,
            "evals/tasks.yaml": [
                task("good", script=[{"text": "Hello, Mina!", "input_tokens": 70, "output_tokens": 5}]),
                task("bad", graders=GRADERS, metadata={"failure_bucket": "farewells"}),
                task("broken", script=[]),
            ],
        },
    )
    args = ("evals", "--agent-model=scripted", "--junitxml=j.xml", "-o", f"junit_family={family}")
    result = run(pytester, *args, workers=workers)
    result.assert_outcomes(passed=2, xfailed=2, errors=2)
    return junit(pytester.path / "j.xml")


def test_the_file_tells_every_trial_once_with_its_score_and_its_place(
    pytester: pytest.Pytester, cases: dict[str, ElementTree.Element]
) -> None:
    """Six cases, each property once in each; suite totals once, from the controller, beside the user's."""
    assert sorted(cases) == [f"{name}[scripted-{n}]" for name in ("bad", "broken", "good") for n in (1, 2)]
    junit_properties = properties(cases["bad[scripted-2]"])
    assert junit_properties["agenteval.transcript"].endswith(".jsonl")
    expected = {
        "agenteval.ending": "missed",
        "agenteval.score": "0.4000",
        "agenteval.suite": "demo",
        "agenteval.task": "bad",
        "agenteval.bucket": "farewells",
        "agenteval.model": "scripted",
        "agenteval.repetition": "2",
        "agenteval.tokens": "0",
        "agenteval.cost_usd": "0.000000",
        "agenteval.grade.greeting": "1.0000",
        "agenteval.grade.farewell": "0.0000",
        "shard": "7",
    }
    assert {name: junit_properties[name] for name in expected} == expected
    assert properties(cases["good[scripted-1]"])["agenteval.tokens"] == "75"
    broken = properties(cases["broken[scripted-1]"])
    assert (broken["agenteval.ending"], broken["agenteval.cause"]) == ("errored", "nothing_to_act_out")
    assert "agenteval.score" not in broken
    (suite,) = ElementTree.parse(pytester.path / "j.xml").getroot()
    totals = properties(suite)
    assert suite.attrib.items() >= {"tests": "6", "failures": "0", "errors": "2", "skipped": "2"}.items()
    assert totals["agenteval.demo[scripted].mean_score"] == "0.7000"
    assert totals["agenteval.demo[scripted].planned"] == "6"
    assert totals["agenteval.demo[scripted].trials"] == "4"
    assert totals["agenteval.demo[scripted].errored"] == "2"


def test_a_failing_teardown_leaves_the_score_with_its_case(pytester: pytest.Pytester) -> None:
    """A user's fixture that breaks at the end makes an error beside the trial's own result."""
    breaking = "import pytest\n\n@pytest.fixture(autouse=True)\ndef tidy():\n    yield\n    1 / 0\n"
    write(pytester.path, {"evals/suite.yaml": "name: demo\n", "evals/conftest.py": breaking})
    write(pytester.path, {"evals/tasks.yaml": [task("bad", graders=GRADERS)]})
    result = run(pytester, "evals", "--agent-model=scripted", "--junitxml=j.xml")
    result.assert_outcomes(failed=1, errors=1)
    cases = list(ElementTree.parse(pytester.path / "j.xml").getroot().iter("testcase"))
    assert [case.find("failure") is not None for case in cases] == [True, False]
    assert str(next(cases[0].iter("failure")).get("message")).startswith("FAILED 0.40: ")
    assert all(properties(case)["agenteval.score"] == "0.4000" for case in cases)

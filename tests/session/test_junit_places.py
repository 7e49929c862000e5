"""File and line in JUnit files: where the missed grader stands, in every family and for every reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_agenteval.cli.main import main
from tests.journals import junit, properties
from tests.junit_readers import dorny, gitlab, mikepenz
from tests.suites import run, write

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
    file = told(junit_file(pytester, "--agent-baseline=latest", "--agent-report=mine.xml", workers=1))
    assert file["properties"]["agenteval.verdict"].startswith("demo: cannot tell")
    assert told(pytester.path / "mine.xml") == file

    assert main(["report", str(pytester.path / ".agenteval/runs/latest"), "-o", "later.xml"]) == 0
    later = told(pytester.path / "later.xml")
    folder = later["properties"]["agenteval.run"]
    assert json.loads(json.dumps(later).replace(folder, file["properties"]["agenteval.run"])) == file


def test_gates_without_a_baseline_stand_in_a_stored_runs_file_too(pytester: pytest.Pytester) -> None:
    """A broken gate must not look held to whoever reads the run later."""
    options = ("--agent-gate=score=0.9", "--agent-report=mine.xml")
    file = told(junit_file(pytester, *options))
    assert file["properties"]["agenteval.gate"].startswith("broken: ")
    assert told(pytester.path / "mine.xml") == file


def test_readers_find_place_ending_and_reason(pytester: pytest.Pytester) -> None:
    """Misses are skipped everywhere, failures and errors are annotated at the line, with the reason."""
    file = junit_file(pytester)
    tracked = ["task.json", "evals/other/task.json", *FILES, "deep/evals/other/tasks.yaml"]
    statuses = ("success", "skipped", "failed", "failed")
    reason = "FAILED 0.00: answer_contains 0.00: no: answer contains 'Goodbye'"
    cause = 'failed on setup with "nothing_to_act_out: nothing to act out'
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
    assert by_gitlab[names[1]].message.startswith("MISSED 0.50: farewell 0.00: no: ")

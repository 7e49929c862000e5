"""JUnit files of whole runs: both families, with workers and without."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.journals import junit, properties
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

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

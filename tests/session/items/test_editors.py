"""What editors and JUnit are told: where a trial was written."""

from __future__ import annotations

import pytest

from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

# What the editor's own plugin does with each collected item.
VSCODE = """
def pytest_collection_finish(session):
    for item in session.items:
        if hasattr(item, "callspec"):
            parent = item.nodeid.rsplit(".py", 1)[1]
            print("PARAMETRIZED", item.nodeid, parent)
        else:
            print("FOUND", item.nodeid)
"""
FILES = {"evals/suite.yaml": suite(), "evals/many.json": [task("one"), task("two")]}
PYTHON = "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_other(x): pass\n"


def test_discovery_in_vs_code_is_not_broken(pytester: pytest.Pytester) -> None:
    """It takes every parametrised test for Python; trials look plain to it, other tests as ever."""
    write(pytester.path, FILES | {"vscode_pytest.py": VSCODE, "test_other.py": PYTHON})
    pytester.syspathinsert()

    result = run(pytester, "--collect-only", "-p", "vscode_pytest", "-s")

    assert result.ret == 0
    result.stdout.fnmatch_lines_random(
        [
            "*FOUND evals/many.json::one?scripted-1?",
            "*FOUND evals/many.json::two?scripted-1?",
            "*PARAMETRIZED test_other.py::test_other?1? ::test_other?1?",
        ]
    )


def test_runs_from_vs_code_keep_their_callspecs(pytester: pytest.Pytester) -> None:
    """Only discovery needs the change: the editor runs trials by their ids."""
    quiet = """
def pytest_collection_finish(session):
    assert all(hasattr(item, "callspec") for item in session.items)
"""
    write(pytester.path, FILES | {"vscode_pytest.py": quiet})
    pytester.syspathinsert()

    result = run(pytester, "-p", "vscode_pytest", "evals/many.json::two[scripted-1]")

    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("root", [".", "evals", "other"])
def test_a_trial_lies_where_pytest_would_say(pytester: pytest.Pytester, root: str) -> None:
    """Its place is told from the root folder, in the root or beside it, as that of any other item."""
    pytester.mkdir("other")
    write(pytester.path, FILES)
    places = """
import pytest
def pytest_collection_finish(session):
    for item in session.items:
        own, pytests = item.location, pytest.Item.location.func(item)
        assert own == pytests, (own, pytests)
        print("AT", own)
"""
    write(pytester.path, {"places.py": places})
    pytester.syspathinsert()

    result = run(pytester, "evals/many.json", f"--rootdir={root}", "--collect-only", "-s", "-p", "places")

    assert result.ret == 0
    file = {".": "evals/many.json", "evals": "many.json", "other": "../evals/many.json"}[root]
    result.stdout.fnmatch_lines([f"AT ('{file}', 2, 'one?scripted-1?')"])


def test_what_a_report_says_of_a_trial_is_the_trials_own(pytester: pytest.Pytester) -> None:
    """File and line of its task; what a fixture records under our name says nothing."""
    conftest = """
import pytest

@pytest.fixture(autouse=True)
def noting(record_property):
    record_property("agenteval.score", "n/a")

def pytest_runtest_logreport(report):
    print('AT', report.when, report.location)
"""
    write(pytester.path, FILES | {"conftest.py": conftest})
    result = run(pytester, "evals/many.json::one", "-v", "-s")
    result.stdout.fnmatch_lines(["PASSED 1.00AT call ('evals/many.json', 2, 'one?scripted-1?')"])

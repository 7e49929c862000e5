"""Which files are tasks, what their trials are called, how quickly they are built, and what editors see."""

from __future__ import annotations

import re
from typing import Any

import pytest
from _pytest.python import PyCollector

from tests.suites import collected_ids, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

PACKAGE = {"name": "left-pad", "version": "1.0.0"}


def test_node_ids_are_file_task_model_and_repetition(pytester: pytest.Pytester) -> None:
    """The id of a trial is exactly ``file::task[model-repetition]``, and any part of it can be named.

    Below a suite the keys ``id`` and ``graders`` make a task, whatever the file's name; a list holds several.
    """
    yaml = 'id: tea\ninput: {content: hi}\ngraders: [{name: answer_contains, config: {text: "a"}}]\n'
    files = {
        "evals/suite.yaml": suite(),
        "evals/deep/er/tea.yml": yaml,
        "evals/many.json": [task("one", trials_per_run=2), task("two")],
    }
    write(pytester.path, files)
    models = "--agent-model=scripted,nop"
    one = [f"evals/many.json::one[{case}]" for case in ("scripted-1", "scripted-2", "nop-1", "nop-2")]
    two = [f"evals/many.json::two[{case}]" for case in ("scripted-1", "nop-1")]

    assert collected_ids(pytester) == ["evals/deep/er/tea.yml::tea[scripted-1]", *one[:2], two[0]]
    for named, expected in {
        "evals/many.json": [*one, *two],
        "evals/many.json::two": two,
        "evals/many.json::two[nop-1]": two[1:],
    }.items():
        assert collected_ids(pytester, named, models) == expected


OTHERS = (
    "package.json",
    "evals/package.json",
    "evals/x/workspace/deep/notes.json",
    "evals/_x/task.json",
    "evals/x/_drafts/more/task.json",
    "evals/.x/task.json",
    "evals/.task.json",
    "evals/x/task.json.bak",
    "evals/x/task.toml",
    # An overlay may hold task files and suites, as data for an agent.
    "evals/x/workspace/task.json",
    "y/workspace/task.json",
)


def test_other_files_are_left_alone(pytester: pytest.Pytester) -> None:
    """Data of other tools, workspaces, hidden and set aside folders give no trial and no complaint.

    What lies in a workspace, or is set aside, is not judged, not even as JSON or YAML. Other tools have a
    ``task.yaml`` too: without a suite it is ours only if it looks so, is of kind mixed, and its miss fails.
    """
    others = {name: PACKAGE if name.endswith("package.json") else task("hidden") for name in OTHERS}
    broken = {"evals/_data.json": "{", "evals/x/workspace/notes.yaml": "a: [", "evals/_x/list.json": "id: ["}
    theirs = {"a/task.yaml": "summary: spread\nexecute: make\n", "b/task.yaml": "a: ["}
    own = {
        "evals/suite.yaml": suite(),
        "evals/x/task.json": task("greet"),
        "y/task.json": task("m", says="Hm."),
    }
    write(
        pytester.path, {**own, **others, **broken, **theirs, "evals/x/workspace/suite.yaml": "name: inner\n"}
    )

    result = run(pytester, "-v", "--agent-model=scripted")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*hidden*")
    result.stdout.fnmatch_lines(["evals/x/task.json::greet?scripted-1? PASSED 1.00*", "y/task.json::m*"])
    assert len(collected_ids(pytester, "-m", "mixed")) == 1


def test_suites_and_projects_may_lie_in_folders_of_any_name(pytester: pytest.Pytester) -> None:
    """A folder with a suite file of its own is a suite; only folders below the root count as set aside."""
    write(pytester.path, {"evals/workspace/suite.yaml": suite(), "evals/workspace/mail.json": task("mail")})
    root = pytester.mkdir("_x") / "workspace"
    write(root, {"pytest.ini": "[pytest]\n", "suite.yaml": suite(), "task.json": task("greet")})

    assert collected_ids(pytester, "evals") == ["evals/workspace/mail.json::mail[scripted-1]"]
    run(pytester, str(root)).assert_outcomes(passed=1)


PETITION = """
import pytest

class Petition(pytest.File):
    def collect(self):
        yield Signature.from_parent(self, name="signed")

class Signature(pytest.Item):
    def runtest(self):
        pass

def pytest_collect_file(file_path, parent):
    if file_path.name == "petition.json":
        return Petition.from_parent(parent, path=file_path)
"""


def test_a_named_file_that_is_no_task_is_told(pytester: pytest.Pytester) -> None:
    """Who names a file means it: it is said what a task would look like, without a traceback.

    A file that another plugin collects is no broken task of ours, also when it is named.
    """
    names = ("evals/package.json", "loose.json")
    write(pytester.path, {"evals/suite.yaml": suite(), **dict.fromkeys(names, PACKAGE)})
    write(pytester.path, {"conftest.py": PETITION, "petition.json": PACKAGE})

    result = run(pytester, "--continue-on-collection-errors", *names, "petition.json")

    result.assert_outcomes(errors=2, passed=1)
    for name in names:
        lines = [f"{name}:1", "  expected: a task (a map with*", "  found: *a map with name*"]
        result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize("off", [("terminal",), ("cacheprovider", "junitxml", "logging")], ids=" ".join)
def test_pytest_may_do_without_its_own_plugins(pytester: pytest.Pytester, off: tuple[str, ...]) -> None:
    """Nothing of ours needs pytest's cache, terminal, JUnit or logging."""
    without = [f"-pno:{name}" for name in off]
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/x/task.json": task("greet")})

    assert run(pytester, *without, "evals").ret == 0
    assert run(pytester, *without, "evals", "-k", "nothing").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_collecting_only_shows_files_and_trials_and_leaves_nothing(pytester: pytest.Pytester) -> None:
    """``--co`` lists a tree and makes no run folder."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/x/task.json": task("greet")})

    result = run(pytester, "--co", "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["*<Dir x>", "*<TaskFile task.json>", "*<TrialItem greet?scripted-1?>"])
    assert sorted(path.name for path in pytester.path.iterdir()) == ["evals"]


@pytest.mark.parametrize("workers", [0, 1])
def test_names_that_are_shown_can_be_pasted(pytester: pytest.Pytester, workers: int) -> None:
    """Whatever a name holds that an id may hold: dots, dashes, letters of any script."""
    ids = ["v1.2_case", "한글.1", "a-b", "#3@x", "a(b)"]
    files = {f"evals/한국어/{number}.x/t.json": task(id) for number, id in enumerate(ids)}
    write(pytester.path, {"evals/suite.yaml": suite(), **files})
    names = collected_ids(pytester, "evals", "--agent-model=scripted,nop")

    shown = run(pytester, "evals", "-v", "--agent-model=scripted,nop", workers=workers).stdout.str()

    assert all(re.search(rf"(^|\s){re.escape(name)}(\s|$)", shown, re.MULTILINE) for name in names)
    run(pytester, *names, "--agent-model=scripted,nop").assert_outcomes(passed=5, failed=5)


MANY = [task(f"task_{number}") for number in range(20)]
FILES = {
    "evals/suite.yaml": suite(),
    "evals/a/many.json": MANY,
    "evals/b/one.json": task("lone"),
    "evals/b/two.json": task("other", tags=["slow"]),
}


@pytest.fixture
def slow_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that pytest's own way of building functions was asked for."""
    asked: list[str] = []
    original = PyCollector._genfunctions

    def counted(self: PyCollector, name: str, funcobj: object) -> object:
        asked.append(name)
        return original(self, name, funcobj)

    monkeypatch.setattr(PyCollector, "_genfunctions", counted)
    return asked


PARAMETERS = """
def pytest_generate_tests(metafunc):
    if metafunc.function.__name__ == "task_1":
        metafunc.fixturenames.append("again")
        metafunc.parametrize("again", [1, 2])
"""
AXIS = "import pytest\n@pytest.fixture(autouse=True, params='xy')\ndef axis(): pass\n"
# Files beside those above, options, how many items there are, and which tasks pytest itself was asked for.
SHAPES: dict[str, tuple[dict[str, Any], list[str], int, list[str]]] = {
    "once for each folder": ({}, ["--agent-model=scripted,nop", "--repetitions=2"], 88, ["task_0", "lone"]),
    "a task of other cases": (
        {"evals/a/more.json": task("often", trials_per_run=3)},
        [],
        25,
        ["task_0", "often", "lone"],
    ),
    "a conftest that sees every task of its folder": (
        {"evals/a/conftest.py": PARAMETERS},
        [],
        23,
        [*(f"task_{number}" for number in range(20)), "lone"],
    ),
    "a fixture that multiplies": ({"evals/a/conftest.py": AXIS}, [], 42, ["task_0", "lone"]),
}


@pytest.mark.parametrize("case", SHAPES)
def test_tasks_of_a_folder_are_built_from_one_shape(
    pytester: pytest.Pytester, slow_ways: list[str], case: str
) -> None:
    """pytest works out parameters and fixtures once for each folder, unless somebody else has a say.

    What is shared is what is the same: tags and suites are each task's own.
    """
    more, options, count, asked = SHAPES[case]
    write(pytester.path, FILES | more)

    found = collected_ids(pytester, *options)

    assert len(found) == len(set(found)) == count
    assert slow_ways == asked
    for option in ("-m", "-k"):
        slow = collected_ids(pytester, option, "slow")
        assert slow == ["evals/b/two.json::other[scripted-1]"]


# What the editor's own plugin does with each collected item.
VSCODE = """
def pytest_collection_finish(session):
    for item in session.items:
        if hasattr(item, "callspec"):
            print("PARAMETRIZED", item.nodeid, item.nodeid.rpartition(".py")[2])
        else:
            print("FOUND", item.nodeid)
"""
EDITOR_FILES = {"evals/suite.yaml": suite(), "evals/many.json": [task("one"), task("two")]}
PYTHON = "import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_other(x): pass\n"


def test_discovery_in_vs_code_is_not_broken(pytester: pytest.Pytester) -> None:
    """It takes every parametrised test for Python; trials look plain to it, other tests as ever.

    Only discovery needs the change: what the editor runs by its ids has its callspec.
    """
    write(pytester.path, EDITOR_FILES | {"vscode_pytest.py": VSCODE, "test_other.py": PYTHON})
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
    tried = run(pytester, "-p", "vscode_pytest", "evals/many.json::two[scripted-1]", "-s")
    tried.assert_outcomes(passed=1)
    tried.stdout.fnmatch_lines(["*PARAMETRIZED evals/many.json::two?scripted-1? *"])


@pytest.mark.parametrize("root", [".", "evals", "other"])
def test_a_trial_lies_where_pytest_would_say(pytester: pytest.Pytester, root: str) -> None:
    """Its place is told from the root folder, in the root or beside it, as that of any other item."""
    pytester.mkdir("other")
    write(pytester.path, EDITOR_FILES)
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
    write(pytester.path, EDITOR_FILES | {"conftest.py": conftest})
    result = run(pytester, "evals/many.json::one", "-v", "-s")
    result.stdout.fnmatch_lines(["PASSED 1.00AT call ('evals/many.json', 2, 'one?scripted-1?')"])

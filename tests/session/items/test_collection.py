"""Which files are tasks, and what their trials are called."""

from __future__ import annotations

import re

import pytest

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

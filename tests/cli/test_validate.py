"""``agenteval validate``: every problem of task files, without a run."""

from __future__ import annotations

import shutil

import pytest

from pytest_agenteval.cli.main import main
from tests.calibration.judges import project
from tests.cli.conftest import Agenteval, Said
from tests.suites import only_our_plugin, suite, task, write

pytest_plugins = ["pytester"]

POLITE = """
class Polite:
    version = "1"

    def __init__(self, word):
        self.word = word

    def grade(self, evidence):
        raise NotImplementedError

def pytest_agenteval_register(registry):
    registry.grader("polite", Polite)
"""


@pytest.fixture
def in_process(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Agenteval:
    """Run the command in this process, in pytester's folder, as far as it needs no process of its own."""
    only_our_plugin(monkeypatch)
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agenteval.plugin")
    monkeypatch.delenv("PYTEST_ADDOPTS")

    def run(*args: str) -> Said:
        try:
            status = main(list(args))
        except SystemExit as ended:
            status = int(ended.code or 0)
        return Said(status, *capfd.readouterr())

    return run


def test_files_without_problems_are_counted(pytester: pytest.Pytester, in_process: Agenteval) -> None:
    """Tasks count once, however many trials they have, held out ones too; nothing is left behind.

    A suite for a real model is validated by who has no key.
    """
    many = [task("one", trials_per_run=3), task("two", split="held_out")]
    files = {"evals/suite.yaml": suite().replace("scripted", "claude"), "evals/many.json": many}
    write(pytester.path, {**files, "package.json": {"name": "x"}})
    before = sorted(pytester.path.rglob("*"))

    output = in_process("validate", "evals", "--", ".")

    assert (output.status, output.out.strip()) == (0, "2 tasks, 0 files with problems")
    assert in_process("validate").out == output.out
    assert sorted(pytester.path.rglob("*")) == before


def test_calibrations_are_counted_beside_tasks(pytester: pytest.Pytester, in_process: Agenteval) -> None:
    """A folder that holds nothing but a calibration has something to run."""
    project(pytester.path)

    output = in_process("validate", "evals")

    assert (output.status, output.out.strip()) == (0, "0 tasks, 1 calibration, 0 files with problems")


def test_every_problem_of_every_file_is_printed(pytester: pytest.Pytester, in_process: Agenteval) -> None:
    """One broken file hides no other; the exit status is 1.

    Below a suite nothing is passed over in silence; what lies in no suite may be meant as a task.
    """
    broken = {**task("greet"), "trials_pre_run": 3, "clock": "noon"}
    files = {"evals/a.json": broken, "evals/b.json": task("fine"), "evals/c.yaml": "id: x\ngraders: [}\n"}
    others = {"evals/d/data.yaml": "x: 1\n", "loose/b.json": task("b"), "x.json": {"id": 1}}
    write(pytester.path, {"evals/suite.yaml": suite(), **files, **others})

    output = in_process("validate", ".")

    assert output.status == 1
    assert "a.json:19: trials_pre_run" in output.out
    assert "a.json:20: clock" in output.out
    assert "evals/c.yaml:2" in output.out
    assert output.out.splitlines()[-3:] == [
        "not a task: evals/d/data.yaml",
        "loose/b.json looks like a task, but there is no suite.yaml in its folder or above",
        "1 task, 2 files with problems",
    ]
    assert "Traceback" not in output.out + output.err


def test_without_a_path_only_evals_are_imported(pytester: pytest.Pytester, in_process: Agenteval) -> None:
    """Unit tests may need what is not there; suites in modules, and tasks without a suite, are seen.

    pytest's own rootdir stays: shared fixtures are found there.
    """
    broken = "raise RuntimeError('a database is needed')\n"
    module = f"from pytest_agenteval import suite\n\nkind = suite('kind', tasks=[{task('k')!r}])\n"
    start = task("one", input={"content": "x", "base_fixture": "shared"})
    files = {
        "tests/conftest.py": broken,
        "tests/test_unit.py": "import pytest_agenteval\n",
        "evals/suite.yaml": suite(),
        "evals/deep/one.json": start,
        "evals/deep/suite.yaml": suite(name="deep"),
        "fixtures/shared/a.md": "x",
        "loose/b.json": task("b"),
        "more/test_kinds.py": module,
    }
    write(pytester.path, files)

    output = in_process("validate")

    lines = output.out.splitlines()
    assert lines == [
        "loose/b.json looks like a task, but there is no suite.yaml in its folder or above",
        "2 tasks, 0 files with problems",
    ], output
    assert "RuntimeError" in in_process("validate", ".").err

    # With nothing but modules there is no file to go by: pytest collects as it does.
    for name in ("evals", "loose"):
        shutil.rmtree(pytester.path / name)
    (pytester.path / "tests/conftest.py").unlink()
    assert in_process("validate").out == "1 task, 0 files with problems\n"


def test_graders_of_conftests_are_known(pytester: pytest.Pytester, in_process: Agenteval) -> None:
    """As in a run, with their settings; what nobody offers is a problem."""
    good = task("good", graders=[{"name": "polite", "config": {"word": "please"}}])
    bad = task("bad", graders=[{"name": "polite", "config": {"wrod": "please"}}])
    write(pytester.path, {"conftest.py": POLITE, "evals/suite.yaml": suite(), "evals/good.json": good})

    write(pytester.path, {"evals/bad.json": bad})

    output = in_process("validate", "evals")

    assert output.out.strip().endswith("1 task, 1 file with problems")
    assert output.status == 1
    assert "evals/bad.json:14: graders[0].config" in output.out
    assert "unexpected keyword argument 'wrod'" in output.out


def test_the_users_options_for_pytest_do_not_matter(
    pytester: pytest.Pytester, in_process: Agenteval, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those in pyproject.toml nor those in the environment."""
    options = "[tool.pytest.ini_options]\naddopts = '-x -q --no-such-option'\n"
    write(pytester.path, {"pyproject.toml": options, "evals/suite.yaml": suite(), "evals/a.json": task("a")})
    monkeypatch.setenv("PYTEST_ADDOPTS", "-q --nor-such-a-one")

    output = in_process("validate", "evals")

    assert (output.status, output.out.strip()) == (0, "1 task, 0 files with problems")


@pytest.mark.parametrize(
    ("args", "status", "out", "err"),
    [(("nowhere",), 2, "", "not found: nowhere"), (("empty",), 1, "0 tasks, 0 files with problems", "")],
)
def test_nothing_to_validate_is_no_success(
    pytester: pytest.Pytester, in_process: Agenteval, args: tuple[str, ...], status: int, out: str, err: str
) -> None:
    """A path that is not there is a mistake in use; a folder without tasks is not fine either."""
    pytester.mkdir("empty")

    output = in_process("validate", *args)

    assert output.status == status
    assert out in output.out
    assert err in output.err

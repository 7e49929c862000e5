"""A benchmark of somebody else's: a wheel of its own beside ours, in an environment made for the two."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.suites import suite, task, write

ROOT = Path(__file__).parents[3]
OUTSIDE = ROOT / "tests" / "outside_benchmark"
CORE = "session/test_endings.py"
SOME = "reach_their_thresholds or capability_suite or breaks or starting_tree"
"""Tests of ours that go through all of a run, some of each ending; .ci/run runs all of core's so."""
PYTEST = ("-m", "pytest", "evals", "-p", "no:cacheprovider")
EACH = """
import contextlib, io, json, sys
from pytest_agenteval.cli.main import main

ends = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    ends.append((status, out.getvalue(), err.getvalue()))
print(json.dumps(ends))
"""
"""Commands one after the other: a process for each would import all of it again."""
ASKING = """
import pytest

@pytest.fixture(autouse=True)
def looked_at(tiny_greeting):
    assert "Hello" in tiny_greeting
"""
Environment: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"


def _wheel(project: Path, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, text=True, timeout=120)
    (wheel,) = into.glob("*.whl")
    return wheel


def _make_environment(folder: Path, wheels: list[Path], without: str = "") -> Path:
    """Make a virtual environment with these wheels, and the libraries of ours; give its interpreter.

    ``without`` begins what of the wheels is left out. What they hold is unpacked as an installer does it.
    """
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    (python,) = [*folder.glob("bin/python"), *folder.glob("Scripts/python.exe")]
    look = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", look], check=True, capture_output=True, text=True, timeout=60)
    site = Path(done.stdout.strip())
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as packed:
            names = [name for name in packed.namelist() if not without or without not in name]
            packed.extractall(site, names)
    _compile(site)
    ours = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (site / "libraries.pth").write_text("".join(f"{path}\n" for path in ours), encoding="utf-8")
    return python


def _compile(site: Path) -> None:
    """Take what an installer would compile from our sources, where it is compiled and they are the same."""
    for source in (ROOT / "src").rglob("*.py"):
        installed = site / source.relative_to(ROOT / "src")
        compiled = Path(cache_from_source(str(source)))
        if compiled.exists() and installed.exists() and installed.read_bytes() == source.read_bytes():
            shutil.copystat(source, installed)  # by whose time Python knows what belongs together
            into = Path(cache_from_source(str(installed)))
            into.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, into)


def _runs_in(python: Path, cwd: Path) -> Environment:
    ours = ("PYTHON", "PYTEST", "AGENTEVAL_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}

    def run(*arguments: str, rc: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(python), *arguments], cwd=cwd, env=environ, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == rc, done.stdout + done.stderr
        return done

    return run


def _commands(environment: Environment, *commands: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Give exit status, output and errors of each ``agenteval`` command, in one process there."""
    ends = json.loads(environment("-c", EACH, json.dumps(commands)).stdout)
    return [(status, out, err) for status, out, err in ends]


@pytest.fixture(scope="module")
def wheel_of_ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel."""
    return _wheel(ROOT, tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def python_with_both(wheel_of_ours: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with both wheels."""
    folder = tmp_path_factory.mktemp("both")
    return _make_environment(folder / "env", [wheel_of_ours, _wheel(OUTSIDE, folder / "dist")])


@pytest.fixture
def outside(python_with_both: Path, tmp_path: Path) -> Environment:
    """Both wheels in their environment, and a folder to work in."""
    here = tmp_path / "project"
    here.mkdir()
    return _runs_in(python_with_both, here)


def test_a_benchmark_from_outside_uses_every_seam(
    outside: Environment, python_with_both: Path, tmp_path: Path
) -> None:
    """Agent, tools, graders, rubric, judges, player, importer, report format and scorecard are its own."""
    here = tmp_path / "project"
    where = outside("-c", "import pytest_agenteval as a, tiny_agentbench as b; print(a.__file__, b.__file__)")
    assert where.stdout.count(str(python_with_both.parents[1])) == 2
    (here / "names.txt").write_text("Mina\nMinami\n", encoding="utf-8")
    importing = ("import", "tiny", "names.txt", "--to", "evals/greetings")

    offered, imported, refused = _commands(outside, ("import",), importing, (*importing, "--grader=tinny"))
    assert "tiny: a text file with a name on each line" in offered[1]
    assert imported[0] == 0
    assert imported[1].startswith("2 tasks: ")
    assert refused[0] == 2
    assert "--grader=tinny: nobody registered it" in refused[2]
    (here / "evals" / "conftest.py").write_text(ASKING, encoding="utf-8")

    done = outside(*PYTEST, "--agent-model=rules", "--agent-judge=tiny_panel").stdout
    assert "2 passed" in done
    assert "judged by tiny_judge" in done
    assert "\ngreetings politeness 1.00\n" in done
    journals = here.glob(".agenteval/runs/*/journal-*.jsonl")
    journal_text = "".join(journal.read_text(encoding="utf-8") for journal in journals)
    assert all(f'"{label}"' in journal_text for label in ("greets", "short", "judge"))

    report = ("report", "latest")
    printed, as_json, as_tiny = _commands(
        outside,
        (*report, "-v", "--greets", "0.5"),
        (*report, "--greets", "0.5", "--json", "-"),
        (*report, "--as", "tiny", "-o", "out"),
    )
    assert (printed[0], as_json[0], as_tiny[0]) == (0, 0, 0)
    assert "one question is no benchmark" in printed[1]
    assert json.loads(as_json[1])["weights"] == {"manners": 0.5, "brevity": 0.5}
    written = as_tiny[1].strip()
    lines = (here / written).read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == ["greet_Mina passed 1.0", "greet_Minami passed 1.0"]


def test_what_init_writes_runs_with_the_wheel_alone(outside: Environment, tmp_path: Path) -> None:
    """First suites and examples come out of the wheel: all that they need is in there."""
    here = tmp_path / "project"
    examples = [("init", "--example", name) for name in ("card", "pkm", "ko")]

    ended = _commands(outside, ("init",), *examples)

    assert [status for status, _, _ in ended] == [0, 0, 0, 0]
    assert not list(here.rglob("__pycache__"))  # which installers put beside whatever ends with .py
    few = ("evals/orders", "evals/card/ambiguous", "evals/pkm/fresh", "evals/ko/L1/L1-001.yaml")
    options = ("-p", "no:cacheprovider", "--agent-record-chat=none", "--repetitions=1")
    done = outside("-m", "pytest", *few, *options).stdout
    summary = done.splitlines()[-1]
    assert "xfailed" in summary
    assert "error" not in summary


@pytest.fixture
def without_benchmarks(wheel_of_ours: Path, tmp_path: Path) -> Environment:
    """Our wheel as it would be if no benchmark had ever been written."""
    python = _make_environment(tmp_path / "env", [wheel_of_ours], without="pytest_agenteval/benchmarks/")
    (entry_points,) = (tmp_path / "env").rglob("pytest_agenteval-*.dist-info/entry_points.txt")
    sections = entry_points.read_text(encoding="utf-8").split("\n[")
    other_sections = [section for section in sections if "pytest_agenteval.benchmarks]" not in section]
    entry_points.write_text("\n[".join(other_sections), encoding="utf-8")
    (tmp_path / "project").mkdir()
    return _runs_in(python, tmp_path / "project")


def test_core_works_without_any_benchmark(without_benchmarks: Environment, tmp_path: Path) -> None:
    """A user's suite runs, scripted and by rules; there is no importer, and core's own tests pass."""
    write(tmp_path / "project", {"evals/suite.yaml": suite(), "evals/all.yaml": [task("good"), task("fine")]})
    output = without_benchmarks(*PYTEST, "--agent-model=scripted", "--agent-model=rules").stdout
    assert "4 passed" in output
    assert "rule-based, no LLM" in output
    assert "warning" not in output
    verbs = (("import",), ("import", "memex"), ("init", "--example", "card"))
    offered, refused, no_example = _commands(without_benchmarks, *verbs)
    assert (no_example[0], "there are none" in no_example[2]) == (2, True)
    assert "there are no importers" in offered[1]
    assert (refused[0], "known: " in refused[2]) == (2, False)
    command = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        SOME,
        f"--rootdir={ROOT}",
        "-c",
        str(ROOT / "pyproject.toml"),
    )
    assert " passed" in without_benchmarks(*command, str(ROOT / "tests" / CORE)).stdout

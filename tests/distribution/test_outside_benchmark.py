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

ROOT = Path(__file__).parents[2]
OUTSIDE = ROOT / "tests" / "outside_benchmark"
CORE = "session/test_endings.py"
"""Tests of ours that go through all of a run; .ci/run runs all of core's so."""
COMMAND = "import sys; from pytest_agenteval.cli.main import main; sys.exit(main())"
PYTEST = ("-m", "pytest", "evals", "-p", "no:cacheprovider")
REPORT = ("-c", COMMAND, "report", "latest")
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


@pytest.fixture(scope="module")
def wheel_of_ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel."""
    return _wheel(ROOT, tmp_path_factory.mktemp("ours"))


@pytest.fixture
def outside(wheel_of_ours: Path, tmp_path: Path) -> Environment:
    """Both wheels in a fresh environment, and a folder to work in."""
    theirs = _wheel(OUTSIDE, tmp_path / "dist")
    here = tmp_path / "project"
    here.mkdir()
    return _runs_in(_make_environment(tmp_path / "env", [wheel_of_ours, theirs]), here)


def test_a_benchmark_from_outside_uses_every_seam(outside: Environment, tmp_path: Path) -> None:
    """Agent, tools, graders, rubric, judges, player, importer, report format and scorecard are its own."""
    here = tmp_path / "project"
    where = outside("-c", "import pytest_agenteval as a, tiny_agentbench as b; print(a.__file__, b.__file__)")
    assert where.stdout.count(str(tmp_path / "env")) == 2
    (here / "names.txt").write_text("Mina\nMinami\n", encoding="utf-8")
    importing = ("-c", COMMAND, "import", "tiny", "names.txt", "--to", "evals/greetings")

    assert "tiny: a text file with a name on each line" in outside("-c", COMMAND, "import").stdout
    assert outside(*importing).stdout.startswith("2 tasks: ")
    assert "--grader=tinny: nobody registered it" in outside(*importing, "--grader=tinny", rc=2).stderr
    (here / "evals" / "conftest.py").write_text(ASKING, encoding="utf-8")

    done = outside(*PYTEST, "--agent-model=rules", "--agent-judge=tiny_panel").stdout
    assert "2 passed" in done
    assert "judged by tiny_judge" in done
    assert "\ngreetings politeness 1.00\n" in done
    journals = here.glob(".agenteval/runs/*/journal-*.jsonl")
    journal_text = "".join(journal.read_text(encoding="utf-8") for journal in journals)
    assert all(f'"{label}"' in journal_text for label in ("greets", "short", "judge"))

    report = outside(*REPORT, "-v", "--greets", "0.5")
    assert "one question is no benchmark" in report.stdout
    data = json.loads(outside(*REPORT, "--greets", "0.5", "--json", "-").stdout)
    assert data["weights"] == {"manners": 0.5, "brevity": 0.5}
    written = outside(*REPORT, "--as", "tiny", "-o", "out").stdout.strip()
    lines = (here / written).read_text(encoding="utf-8").splitlines()
    assert sorted(lines) == ["greet_Mina passed 1.0", "greet_Minami passed 1.0"]


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
    assert "2 passed" in without_benchmarks(*PYTEST).stdout
    by_rules = without_benchmarks(*PYTEST, "--agent-model=rules").stdout
    assert "\nrules: rule-based, no LLM\n" in by_rules
    assert "warning" not in by_rules
    assert "there are no importers" in without_benchmarks("-c", COMMAND, "import").stdout
    assert "known: " not in without_benchmarks("-c", COMMAND, "import", "memex", rc=2).stderr
    command = (
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--rootdir={ROOT}",
        "-c",
        str(ROOT / "pyproject.toml"),
    )
    assert " passed" in without_benchmarks(*command, str(ROOT / "tests" / CORE)).stdout

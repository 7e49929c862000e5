"""Benchmarks that are installed: found when a name is first looked up, and in nobody's way."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suites import suite, task, write

LOOKING = """
import sys

def pytest_unconfigure():
    found = sorted(name for name in sys.modules if name.startswith("pytest_agenteval."))
    print("MODULES", *found, "END")
"""
TINY = """
def pytest_agenteval_register(registry):
    registry.grader("is_tiny", "tiny_benchmark.graders:IsTiny")
"""
GRADERS = """
from pytest_agenteval import Check, Grade

class IsTiny:
    version = "1"

    def grade(self, evidence):
        return Grade.from_checks("is_tiny", [Check("it is short", len(evidence.answer) < 20)])
"""
FIXTURES = """
import pytest

@pytest.fixture
def tiny_answer(trial):
    return trial.outcome.answer.text
"""
ASKING = """
import pytest

@pytest.fixture(autouse=True)
def looked_at(tiny_answer):
    assert "Mina" in tiny_answer
"""
BROKEN = (
    "the benchmark 'tiny' of tiny 1.2 cannot be used: ModuleNotFoundError: No module named 'no_such_module'"
)
OURS = """
from pathlib import Path

def pytest_agenteval_register(registry):
    registry.toolset("ours", [Path(__file__).with_name("own.py")])
"""
GROUP = "[pytest_agenteval.benchmarks]\n"


def install(site: Path, name: str, files: dict[str, str]) -> None:
    """Put a distribution onto a path as pip would: its package, its metadata, its entry point."""
    info = f"{name}-1.2.dist-info"
    write(
        site,
        {
            **{f"{name}_benchmark/{file}": text for file, text in files.items()},
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n",
            f"{info}/entry_points.txt": f"{GROUP}{name} = {name}_benchmark.register\n",
        },
    )


def run(root: Path, *arguments: str, site: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process of its own, this path before the others, with our plugin alone, or xdist."""
    environ = {**os.environ, "PYTHONPATH": str(site or root), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    spread = ("-p", "xdist.plugin") if "-n2" in arguments else ()
    plugins = ("-p", "agenteval", *spread, "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *plugins, "-q", *arguments]
    return subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=60)


def evals(root: Path, *tasks: dict[str, object]) -> None:
    """Write a suite of scripted tasks, and what prints the modules of ours at the end."""
    write(root, {"conftest.py": LOOKING, "evals/suite.yaml": suite(), "evals/all.yaml": list(tasks)})


def modules(done: subprocess.CompletedProcess[str]) -> set[str]:
    """Give our modules that were imported when pytest ended."""
    return set(done.stdout.split("MODULES ")[1].split(" END")[0].split())


def test_a_run_without_evals_looks_for_no_benchmark(tmp_path: Path) -> None:
    """Whoever has the plugin installed and no task file pays nothing for what might be there."""
    write(tmp_path, {"conftest.py": LOOKING, "test_plain.py": "def test_plain(): pass\n"})
    assert "pytest_agenteval.registry.installed" not in modules(run(tmp_path))


def test_an_installed_benchmark_offers_names_and_fixtures(tmp_path: Path) -> None:
    """Its entry point is all it takes: nobody's conftest names it."""
    plugins = 'pytest_plugins = ("tiny_benchmark.fixtures",)\n'
    files = {"register.py": plugins + TINY, "graders.py": GRADERS, "fixtures.py": FIXTURES, "__init__.py": ""}
    install(tmp_path / "site", "tiny", files)
    evals(tmp_path, task("good", graders=[{"name": "is_tiny"}]))
    write(tmp_path, {"evals/conftest.py": ASKING})
    done = run(tmp_path, "evals", site=tmp_path / "site")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    left_out = run(tmp_path, "evals", "-p", "no:agenteval-benchmark-tiny", site=tmp_path / "site")
    assert "found:    'is_tiny'" in left_out.stdout


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["one-process", "two-workers"])
def test_a_benchmark_that_cannot_be_imported_is_one_line(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """It is named with distribution, file and line; all else goes on; a name that is unknown may be its."""
    install(tmp_path / "site", "tiny", {"__init__.py": "", "register.py": "import no_such_module\n"})
    evals(
        tmp_path,
        task("good"),
        task("card", graders=[{"name": "answer_contains", "config": {"text": "Mina"}}]),
    )
    write(tmp_path, {"evals/odd.yaml": [task("odd", graders=[{"name": "of_tiny_perhaps"}])]})
    arguments = ("evals", "--continue-on-collection-errors", *workers)
    done = run(tmp_path, *arguments, site=tmp_path / "site")
    output = "".join(done.stdout.split())  # it is broken into lines as wide as the terminal
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert output.count(f"warning:{BROKEN}".replace(" ", "")) == 1
    assert f"hint:     {BROKEN}" in done.stdout
    assert f"{tmp_path / 'site' / 'tiny_benchmark' / 'register.py'}:1" in output
    assert "Traceback" not in done.stdout + done.stderr


def test_a_name_that_two_benchmarks_take_shows_both(tmp_path: Path) -> None:
    """In one line, without a traceback: the user decides which of them goes."""
    for name in ("tiny", "teeny"):
        install(tmp_path / "site", name, {"__init__.py": "", "register.py": TINY})
    evals(tmp_path, task("good"))
    done = run(tmp_path, "evals", site=tmp_path / "site")
    output = done.stdout + done.stderr
    assert "the grader name 'is_tiny' is taken: by " in output
    assert "; -p no:agenteval-benchmark-t" in output
    assert all(f"{name}_benchmark/register.py:3" in output for name in ("tiny", "teeny"))
    assert "Traceback" not in output


NOT_USABLE = {
    "a mistake in registering": (
        "def pytest_agenteval_register(registry):\n    registry.tool('tiny.graders:tool')\n",
        "the tool 'tiny.graders:tool': expected name=..., as it is not imported yet; by ",
    ),
    "a text for a list": (
        "def pytest_agenteval_register(registry):\n    registry.judge_panel('wise', 'claude')\n",
        "the judge panel 'wise': expected a list of models; found 'claude', by ",
    ),
    "no hook": ("HERE = 1\n", "tiny{}_benchmark.register has no pytest_agenteval_register(registry)"),
    "another argument": ("def pytest_agenteval_register(reg): ...\n", "reg"),
}


def test_benchmarks_with_a_mistake_are_one_line_each_and_stop_no_other_run(tmp_path: Path) -> None:
    """Both where pytest and where `agenteval` finds them; whoever leaves one out hears nothing of it."""
    site = tmp_path / "site"
    for number, (register, _) in enumerate(NOT_USABLE.values()):
        install(site, f"tiny{number}", {"__init__.py": "", "register.py": register})
    evals(tmp_path, task("good"))
    done = run(tmp_path, "evals", "-p", "no:agenteval-benchmark-tiny3", site=site)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("warning: the benchmark 'tiny") == 3
    output = "".join(done.stdout.split())  # it is broken into lines as wide as the terminal
    commands = agenteval(tmp_path, ["import"], ["validate", "evals"]).stdout
    listed, validated = commands.split("NEXT\n")
    for number, (_, expected) in enumerate(NOT_USABLE.values()):
        name = f"the benchmark 'tiny{number}' of tiny{number} 1.2 cannot be used: "
        assert number == 3 or f"{name}{expected.format(number)}".replace(" ", "") in output
        assert len([line for line in listed.splitlines() if name in line]) == 1
        assert f"warning: {name}".partition(" of ")[0] in validated


def agenteval(root: Path, *commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Run `agenteval` in one process for all commands, with the path of what was installed."""
    code = f"from pytest_agenteval.cli.main import main; main({commands[0]!r})"
    code += "".join(f"; print('NEXT'); main({command!r})" for command in commands[1:])
    environ = {**os.environ, "PYTHONPATH": str(root / "site")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=60)


def test_two_benchmarks_of_one_name_are_told_in_one_line(tmp_path: Path) -> None:
    """The first is there; the second is named with its distribution, wherever benchmarks are looked for."""
    for name in ("tiny", "teeny"):
        code = (
            f"def pytest_agenteval_register(registry):\n    registry.judge_panel('{name}_judges', ['a/b'])\n"
        )
        install(tmp_path / "site", name, {"__init__.py": "", "register.py": code})
        info = tmp_path / "site" / f"{name}-1.2.dist-info" / "entry_points.txt"
        info.write_text(f"{GROUP}same = {name}_benchmark.register\n", encoding="utf-8")
    evals(tmp_path, task("good"))
    expected = (
        r"the benchmark 'same' of (\w+) 1.2 cannot be used: a benchmark of (\w+) 1.2 has the same name$"
    )
    output = " ".join(run(tmp_path, "evals", site=tmp_path / "site").stdout.split("MODULES")[0].split())
    assert re.search(rf"warning: {expected.rstrip('$')} 1 passed", output), output
    assert re.search(expected, agenteval(tmp_path, ["import"]).stdout, re.MULTILINE)


def test_a_part_of_a_benchmark_that_is_not_there_is_told_where_it_is_missed(tmp_path: Path) -> None:
    """Toolsets and rubrics of a package or folder that is gone: others are there as before."""
    code = """
def pytest_agenteval_register(registry):
    registry.toolset("tiny_tools", ["no_such_package:tools.py"])
    registry.rubrics("tiny_benchmark:no_such_folder")
"""
    install(tmp_path / "site", "tiny", {"__init__.py": "", "register.py": code})
    evals(tmp_path, task("good", graders=[{"name": "judge", "config": {"rubric": "tiny_tone"}}]))
    rubric = run(tmp_path, "evals", site=tmp_path / "site").stdout
    assert "no_such_folder; found none" in rubric
    write(
        tmp_path,
        {
            "evals/suite.yaml": suite(more="tools: [ours, tiny_tools]\n"),
            "evals/conftest.py": OURS,
            "evals/own.py": "def own() -> str: ...\n",
        },
    )
    evals_with_tools = run(tmp_path, "evals", site=tmp_path / "site").stdout
    assert "evals/suite.yaml:" in evals_with_tools
    assert "tools[1]" in evals_with_tools
    assert "or a toolset: " in evals_with_tools
    assert "hint:     the toolset 'tiny_tools' cannot be used: expected a package in" in evals_with_tools

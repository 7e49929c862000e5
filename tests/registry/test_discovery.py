"""Benchmarks that are installed: found when a name is first looked up, and in nobody's way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.registry import installed
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]

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


@pytest.fixture
def site(pytester: pytest.Pytester, quick: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a folder on the path, before the others, that distributions can be installed into."""
    folder = pytester.mkdir("site")
    monkeypatch.syspath_prepend(folder)
    pytester.makeini("[pytest]\npythonpath = site\n")  # for workers
    return folder


def evals(*tasks: dict[str, object]) -> None:
    """Write a suite of scripted tasks."""
    write(Path(), {"evals/suite.yaml": suite(), "evals/all.yaml": list(tasks)})


def test_a_run_without_evals_looks_for_no_benchmark(
    pytester: pytest.Pytester, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has the plugin installed and no task file pays nothing for what might be there."""
    looked: list[str] = []
    monkeypatch.setattr(installed, "distributions", lambda: looked.append("looked") or ())
    write(Path(), {"test_plain.py": "def test_plain(): pass\n"})
    run(pytester).assert_outcomes(passed=1)
    assert looked == []
    evals(task("good"))
    run(pytester, "evals").assert_outcomes(passed=1)
    assert looked == ["looked"]


def test_an_installed_benchmark_offers_names_and_fixtures(pytester: pytest.Pytester, site: Path) -> None:
    """Its entry point is all it takes: nobody's conftest names it."""
    plugins = 'pytest_plugins = ("tiny_benchmark.fixtures",)\n'
    files = {"register.py": plugins + TINY, "graders.py": GRADERS, "fixtures.py": FIXTURES, "__init__.py": ""}
    install(site, "tiny", files)
    evals(task("good", graders=[{"name": "is_tiny"}]))
    write(Path(), {"evals/conftest.py": ASKING})
    done = run(pytester, "evals")
    done.assert_outcomes(passed=1)
    left_out = run(pytester, "evals", "-p", "no:agenteval-benchmark-tiny")
    assert "found:    'is_tiny'" in str(left_out.stdout)


def test_a_benchmark_that_cannot_be_imported_is_one_line(
    pytester: pytest.Pytester, site: Path, workers: int
) -> None:
    """It is named with distribution, file and line; all else goes on; a name that is unknown may be its."""
    install(site, "tiny", {"__init__.py": "", "register.py": "import no_such_module\n"})
    evals(
        task("good"),
        task("card", graders=[{"name": "answer_contains", "config": {"text": "Mina"}}]),
    )
    write(Path(), {"evals/odd.yaml": [task("odd", graders=[{"name": "of_tiny_perhaps"}])]})
    done = run(pytester, "evals", "--continue-on-collection-errors", workers=workers)
    output = "".join(str(done.stdout).split())  # it is broken into lines as wide as the terminal
    done.assert_outcomes(passed=2, errors=1)
    assert output.count(f"warning:{BROKEN}".replace(" ", "")) == 1
    assert f"hint:     {BROKEN}" in str(done.stdout)
    assert f"{site / 'tiny_benchmark' / 'register.py'}:1" in output
    assert "Traceback" not in str(done.stdout) + str(done.stderr)


def test_a_name_that_two_benchmarks_take_shows_both(pytester: pytest.Pytester, site: Path) -> None:
    """In one line, without a traceback: the user decides which of them goes."""
    for name in ("tiny", "teeny"):
        install(site, name, {"__init__.py": "", "register.py": TINY})
    evals(task("good"))
    done = run(pytester, "evals")
    output = str(done.stdout) + str(done.stderr)
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


def test_benchmarks_with_a_mistake_are_one_line_each_and_stop_no_other_run(
    pytester: pytest.Pytester,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both where pytest and where `agenteval` finds them; whoever leaves one out hears nothing of it."""
    for number, (register, _) in enumerate(NOT_USABLE.values()):
        install(site, f"tiny{number}", {"__init__.py": "", "register.py": register})
    evals(task("good"))
    done = run(pytester, "evals", "-p", "no:agenteval-benchmark-tiny3")
    done.assert_outcomes(passed=1)
    assert str(done.stdout).count("warning: the benchmark 'tiny") == 3
    output = "".join(str(done.stdout).split())  # it is broken into lines as wide as the terminal
    capsys.readouterr()
    main(["import"])
    listed = capsys.readouterr().out
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agenteval.plugin")
    main(["validate", "evals"])
    validated = capsys.readouterr().out
    for number, (_, expected) in enumerate(NOT_USABLE.values()):
        name = f"the benchmark 'tiny{number}' of tiny{number} 1.2 cannot be used: "
        assert number == 3 or f"{name}{expected.format(number)}".replace(" ", "") in output
        assert len([line for line in listed.splitlines() if name in line]) == 1
        assert f"warning: {name}".partition(" of ")[0] in validated


def test_two_benchmarks_of_one_name_are_told_in_one_line(
    pytester: pytest.Pytester, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first is there; the second is named with its distribution, wherever benchmarks are looked for."""
    for name in ("tiny", "teeny"):
        code = (
            f"def pytest_agenteval_register(registry):\n    registry.judge_panel('{name}_judges', ['a/b'])\n"
        )
        install(site, name, {"__init__.py": "", "register.py": code})
        info = site / f"{name}-1.2.dist-info" / "entry_points.txt"
        info.write_text(f"{GROUP}same = {name}_benchmark.register\n", encoding="utf-8")
    evals(task("good"))
    expected = (
        r"the benchmark 'same' of (\w+) 1.2 cannot be used: a benchmark of (\w+) 1.2 has the same name$"
    )
    output = " ".join(str(run(pytester, "evals").stdout).split())
    assert re.search(rf"warning: {expected.rstrip('$')} run: ", output), output
    capsys.readouterr()
    main(["import"])
    assert re.search(expected, capsys.readouterr().out, re.MULTILINE)


def test_a_part_of_a_benchmark_that_is_not_there_is_told_where_it_is_missed(
    pytester: pytest.Pytester, site: Path
) -> None:
    """Toolsets and rubrics of a package or folder that is gone: others are there as before."""
    code = """
def pytest_agenteval_register(registry):
    registry.toolset("tiny_tools", ["no_such_package:tools.py"])
    registry.rubrics("tiny_benchmark:no_such_folder")
"""
    install(site, "tiny", {"__init__.py": "", "register.py": code})
    evals(task("good", graders=[{"name": "judge", "config": {"rubric": "tiny_tone"}}]))
    rubric = str(run(pytester, "evals").stdout)
    assert "no_such_folder; found none" in rubric
    write(
        Path(),
        {
            "evals/suite.yaml": suite(more="tools: [ours, tiny_tools]\n"),
            "evals/conftest.py": OURS,
            "evals/own.py": "def own() -> str: ...\n",
        },
    )
    evals_with_tools = str(run(pytester, "evals").stdout)
    assert "evals/suite.yaml:" in evals_with_tools
    assert "tools[1]" in evals_with_tools
    assert "or a toolset: " in evals_with_tools
    assert "hint:     the toolset 'tiny_tools' cannot be used: expected a package in" in evals_with_tools

"""What a run's last line offers to type: commands that exist, about runs that can be compared."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pytest_agenteval.cli.main import main
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def offered(result: pytest.RunResult) -> list[str]:
    """Give the commands of a run's last lines."""
    starts = ("next: ", "or: ", "run: ")
    text = "   ".join(line for line in result.outlines if line.startswith(starts))
    return [part.partition(": ")[2] for part in text.split("   ") if not part.startswith("run: ")]


@pytest.mark.parametrize("results", ["", "kept"])
def test_the_run_before_of_the_same_suites_is_offered_for_comparison(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str], results: str, workers: int
) -> None:
    """Not one of another suite or model, nor the run itself; each command can be typed as it stands."""
    write(pytester.path, {"evals/a/suite.yaml": suite("a"), "evals/a/t.json": task("t")})
    write(pytester.path, {"evals/b/suite.yaml": suite("b"), "evals/b/t.json": task("t")})
    where = [f"--agent-results={results}"] if results else []

    first = run(pytester, "evals/a", *where)
    run(pytester, "evals/a", "--agent-model=nop", *where)
    run(pytester, "evals", *where)
    second = run(pytester, "evals/a", *where, workers=workers)

    (name,) = [Path(line.split()[1]).name for line in first.outlines if line.startswith("run: ")]
    assert [command.split()[1] for command in offered(first)] == ["report"]
    compare, report = offered(second)
    assert compare.startswith(f"agenteval compare {name} latest")
    assert report.startswith("agenteval report latest -v")
    capsys.readouterr()
    for command in (compare, report):
        assert main(shlex.split(command)[1:]) == 0
    assert name in capsys.readouterr().out


def test_a_run_that_is_not_kept_offers_nothing(pytester: pytest.Pytester) -> None:
    """Nobody is sent to a folder that is gone."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": task("t")})

    assert offered(run(pytester, "evals", "--agent-results=none")) == []

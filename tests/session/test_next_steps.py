"""What a run's last line offers to type: commands that exist, about runs that can be compared."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.cli.main import main
from pytest_agenteval.session.summary import next_steps, resume_arguments
from pytest_agenteval.store.run_folder import RunHeader, new_run, planned_groups, write_planned
from tests.reports.runs import CAPABILITY, RULES_MODEL, trial
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


def offered(result: pytest.RunResult) -> list[str]:
    """Give the commands of a run's last lines."""
    starts = ("next: ", "or: ", "run: ")
    text = "   ".join(line for line in result.outlines if line.startswith(starts))
    return [part.partition(": ")[2] for part in text.split("   ") if not part.startswith("run: ")]


@pytest.mark.parametrize(("results", "workers"), [("", 1), ("kept", 0)])
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


VARIANTS = {"old=a.md": "base,old", "old=a.md,new=b.md": "old,new", "old=a.md,new=b.md,third=a.md": ""}


def test_the_two_variants_of_a_run_are_offered_for_comparison(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that were named; one is compared with the agent's own prompts, and of three none are."""
    one = task("t", agent="tool_calling")
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": one, "a.md": "a", "b.md": "b"})
    for number, (given, compared) in enumerate(VARIANTS.items()):
        commands = offered(run(pytester, "evals", f"--agent-prompt={given}", f"--agent-results=runs{number}"))
        expected = [f"agenteval compare latest --variants {compared}"] if compared else []
        where = f" --results runs{number}"
        assert commands == [f"{command}{where}" for command in (*expected, "agenteval report latest -v")]
        assert [main(shlex.split(command)[1:]) for command in commands] == [0] * len(commands)
    capsys.readouterr()


def test_a_run_with_a_baseline_is_compared_with_that(pytester: pytest.Pytester) -> None:
    """And not with a run in between: the verdict above is about the baseline."""
    write(pytester.path, {"evals/suite.yaml": suite(), "evals/t.json": task("t")})
    first = run(pytester, "evals")
    run(pytester, "evals")
    (name,) = [Path(line.split()[1]).name for line in first.outlines if line.startswith("run: ")]
    assert main(["baseline", "set", name, "--to", "kept.json"]) == 0

    for baseline in (name, "kept.json"):
        commands = offered(run(pytester, "evals", f"--agent-baseline={baseline}"))
        assert commands[0] == f"agenteval compare {baseline} latest"
    # Nobody is sent to a folder that is gone.
    assert offered(run(pytester, "evals", "--agent-results=none")) == []


def stored(root: Path, began: str, tasks: str, judge: str = "strict") -> Path:
    """Write down a run that planned these tasks, and ended."""
    judges = (replace(RULES_MODEL, name=judge),)
    began, ended = f"2026-11-21T09:{began}+00:00", "2026-11-21T10:00:00+00:00"
    header = RunHeader(began, models=(RULES_MODEL,), judges=judges, suites=(CAPABILITY,), ended_at=ended)
    folder = new_run(root, header)
    write_planned(folder, planned_groups((trial(task, 1, 1.0).key, "") for task in tasks))
    return folder


def test_a_run_with_other_tasks_or_judges_is_not_offered(tmp_path: Path) -> None:
    """The newest that planned the same stands there; a run without a plan that can be read is no such run."""
    stored(tmp_path, "10:00", "ab")
    old = stored(tmp_path, "11:00", "ab")
    stored(tmp_path, "20:00", "a")
    stored(tmp_path, "21:00", "ab", judge="lenient")
    (stored(tmp_path, "22:00", "ab") / "planned.json").write_text("[]", encoding="utf-8")
    new = stored(tmp_path, "30:00", "ab")
    stored(tmp_path, "30:00.500", "ab")  # later, in the same second

    assert next(next_steps(new, tmp_path)).startswith(f"agenteval compare {old.name} latest")


BUDGETS = {
    ("--agent-max-cost=$2.5",): "--agent-max-cost=5",
    ("--agent-max-cost", "0.00005"): "--agent-max-cost=0.0001",
    ("--agent-max-tokens=2000000",): "--agent-max-tokens=4000000",
}


def test_a_run_whose_budget_was_spent_goes_on_with_twice_of_it() -> None:
    """With the same nothing would begin; a run that was cut short otherwise keeps the one it has."""
    for given, twice in BUDGETS.items():
        command, rest = ["evals", *given, "-x", "-k", "a=b"], ["-k", "a=b", "--agent-resume"]
        spent = list(resume_arguments(command, "--agent-resume", budget_spent=True))
        assert spent == ["evals", twice, *rest]
        assert list(resume_arguments(command, "--agent-resume")) == ["evals", *given, *rest]

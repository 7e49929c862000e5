"""What no run can go on with is refused in a sentence that says what to do, and the run stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.resume.paid_agents import bills, paid_task, project
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def begun(pytester: pytest.Pytester) -> pytest.Pytester:
    """A run of one of two tasks, with a prompt and three repetitions."""
    project(pytester.path, [paid_task("alpha"), paid_task("beta")])
    write(pytester.path, {"short/system.jinja": "Be short."})
    first = run(pytester, "evals", "-k", "alpha", "--agent-run-name=begun", "--repetitions=3")
    first.assert_outcomes(passed=3)
    return pytester


def header(root: Path) -> bytes:
    """Give the bytes of the run's header."""
    return (root / ".agenteval/runs/begun/run.json").read_bytes()


AGAIN = "evals -k alpha --agent-resume"
THREE = f"{AGAIN} --repetitions=3"
REFUSED = {
    "--agent-resume evals": "found 'evals', which is none; to try evals, say --agent-resume=latest evals",
    "evals --agent-resume=nightly": "there is no run 'nightly'",
    "evals --agent-resume": "1 trial not in its plan: demo/beta[[]scripted-1]",
    f"{AGAIN} --repetitions=4": "1 trial not in its plan: demo/alpha[[]scripted-4]",
    f"{THREE} --agent-model=nop,scripted": "3 trials not in its plan: model nop",
    f"{THREE} --agent-prompt=short=short": "3 trials not in its plan: prompt short",
    f"{THREE} --agent-seed=4": "expected --agent-seed=0; found 4",
    f"{THREE} --agent-judge=openai/x": "expected judges none; found openai/x",
    f"{AGAIN} --repetitions=2..3": "expected --repetitions=a number, or none; found 2..3",
    f"{AGAIN} --agent-regrade=latest": "expected no --agent-regrade beside it",
    f"{AGAIN} --agent-reuse": "expected no --agent-reuse beside it",
    f"{AGAIN} --agent-audit": "expected no --agent-audit beside it",
    f"{AGAIN} --agent-run-name=other": "there is no run 'other'",
}


def test_whatever_is_not_in_the_plan_is_refused(begun: pytest.Pytester) -> None:
    """Nothing is tried, and nobody takes the old run for one that has ended anew."""
    root, before = begun.path, header(begun.path)
    paid = bills(root)
    for arguments, message in REFUSED.items():
        result = run(begun, *arguments.split())
        assert result.ret == pytest.ExitCode.USAGE_ERROR, arguments
        result.stderr.fnmatch_lines([f"*--agent-resume: *{message}*"])
        assert (header(root), bills(root)) == (before, paid), arguments
    assert not [path.name for path in (root / ".agenteval/runs/begun").iterdir() if path.name.startswith(".")]


def test_workers_refuse_through_their_controller(begun: pytest.Pytester) -> None:
    """One sentence, once, and no summary of a run that nobody has gone on with."""
    before = header(begun.path)
    result = run(begun, "evals", "--agent-resume", workers=2)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert len([line for line in result.errlines if "not in its plan" in line]) == 1
    result.stdout.no_fnmatch_line("*agent evals*")
    assert header(begun.path) == before


def test_less_than_the_plan_leaves_the_rest_not_run(begun: pytest.Pytester) -> None:
    """Only what is selected goes on; the rest of the plan stays where it was."""
    root = begun.path
    for journal in (root / ".agenteval/runs/begun").glob("journal-*"):
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(line for line in lines if '"repetition":1,' in line))
    result = run(begun, "evals", "-k", "alpha and scripted-2", "--repetitions=3", "--agent-resume")
    result.assert_outcomes(passed=1, deselected=5)
    result.stdout.fnmatch_lines(["*resumed begun: 1 to run", "*1 *not run*", "next: pytest*--agent-resume"])
    assert bills(root)["alpha"] == 4


def test_the_run_before_is_the_latest_to_compare_with(pytester: pytest.Pytester) -> None:
    """A run that goes on is not compared with itself; without one before it, with nothing."""
    root = pytester.path
    project(root, [paid_task("a"), paid_task("b", wants="Omar")])
    run(pytester, "evals", "--agent-run-name=first")
    alone = run(pytester, "evals", "--agent-resume", "--agent-baseline=latest")
    run(pytester, "evals", "--agent-run-name=second")
    result = run(pytester, "evals", "--agent-resume", "--agent-baseline=latest")
    assert alone.ret == pytest.ExitCode.USAGE_ERROR
    alone.stderr.fnmatch_lines(["*--agent-baseline: there is no run before first, which goes on"])
    assert "first" in " ".join(result.outlines)


def test_a_regraded_run_is_begun_anew(pytester: pytest.Pytester) -> None:
    """It costs no agent; the sentence has the command."""
    root = pytester.path
    project(root, [paid_task("a")])
    run(pytester, "evals", "--agent-run-name=first")
    run(pytester, "evals", "--agent-regrade=first")
    result = run(pytester, "evals", "--agent-resume")
    result.stderr.fnmatch_lines(["*graded trials again*begin it anew with --agent-regrade=first"])
    assert files_left_anywhere(root) == set()


def files_left_anywhere(root: Path) -> set[str]:
    """Name what processes of runs should have taken away."""
    return {path.name for path in root.glob(".agenteval/runs/*/.held")}

"""Runs that were cut short go on in their own folder: what has finished is not paid for again."""

from __future__ import annotations

import signal
from datetime import datetime
from pathlib import Path

import pytest

from pytest_agenteval.compare.resource_figures import run_wall
from pytest_agenteval.records.transcript import Figure
from pytest_agenteval.store.run_folder import read_header
from pytest_agenteval.store.run_reader import load_run
from tests.journals import junit, properties, run_folder
from tests.session.resume.paid_agents import SUITE, bills, files_left, paid_task, project, start, wait_for
from tests.suites import run, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

TASKS = [paid_task(f"t{n}", waits=n >= 4) for n in range(12)]


@pytest.mark.posix
@pytest.mark.parametrize("workers", [0, 1])
def test_a_killed_run_goes_on(pytester: pytest.Pytester, workers: int) -> None:
    """Only what was in flight is paid for twice; items tell what is stored, and one report has all of it.

    While a process is still at work on the run nobody else goes on with it.
    """
    root = pytester.path
    project(root, TASKS)
    spread = ("-p", "xdist.plugin", f"-n{workers}") if workers else ()
    at_once = 2 * max(1, workers)
    first = start(root, "--agent-concurrency=2", *spread)
    try:
        wait_for(root, first, finished=4, paid=4 + at_once)
        early = run(pytester, "evals", "--agent-resume", workers=workers)
        first.send_signal(signal.SIGKILL)
        printed = first.communicate()[0]
    finally:
        first.kill()
    (root / "go").touch()
    in_flight = {name for name, count in bills(root).items() if name not in ("t0", "t1", "t2", "t3")}

    result = run(pytester, "evals", "--agent-resume", "--junitxml=j.xml", workers=workers)

    assert early.ret == pytest.ExitCode.USAGE_ERROR
    message = (
        f"*{run_folder(root).name} is still running, in process {first.pid}: wait until it ends, or stop it"
    )
    early.stderr.fnmatch_lines([message])
    assert ("run the same command with --agent-resume" in printed) == (workers == 0)
    assert len(in_flight) == at_once
    assert result.ret == 0
    result.assert_outcomes(passed=12)
    result.stdout.fnmatch_lines_random(["*resumed *: 4 had finished, 8 to run", "demo *12 of 12 trials*"])
    assert {name for name, count in bills(root).items() if count > 1} == in_flight
    assert bills(root).total() == 12 + at_once
    stored = load_run(run_folder(root))
    assert {entry.key.task: (entry.attempt, entry.attempts) for entry in stored.entries} == {
        task["id"]: (2, 2) if task["id"] in in_flight else (1, 1) for task in TASKS
    }
    assert (stored.odd, stored.begun, len(stored.header.resumed)) == ((), (), 1)
    # Nobody knows how long a pytest ran that was killed.
    assert (run_wall(stored.header).unknown, run_wall(stored.header).known > 0) == (1, True)
    cases = {name.partition("[")[0]: properties(case) for name, case in junit(root / "j.xml").items()}
    assert {name for name, each in cases.items() if each.get("agenteval.taken_over") == "resumed"} == {
        "t0",
        "t1",
        "t2",
        "t3",
    }
    assert all(Path(each["agenteval.transcript"]).is_file() for each in cases.values())
    assert files_left(root) == set()


@pytest.mark.posix
def test_ctrl_c_names_the_way_to_go_on(pytester: pytest.Pytester) -> None:
    """The command of the summary runs what is missing, as often as it is pressed; the run has one header.

    Ctrl-C is an end like any other: no trial that ran then is named for it.
    """
    root = pytester.path
    project(root, TASKS)
    first = start(root, "--agent-concurrency=2")
    wait_for(root, first, finished=4, paid=6)
    first.send_signal(signal.SIGINT)
    output = first.communicate(timeout=60)[0]
    began = read_header(run_folder(root)).started_at
    second = start(root, "--agent-concurrency=3", "--agent-resume")
    wait_for(root, second, finished=4, paid=9)
    second.send_signal(signal.SIGINT)
    again = second.communicate(timeout=60)[0]
    (root / "go").touch()

    result = run(pytester, "evals", "--agent-resume", "-v")

    assert "next: pytest evals -o addopts= --agent-concurrency=2 --agent-resume" in output
    assert "next: pytest evals -o addopts= --agent-concurrency=3 --agent-resume" in again
    result.assert_outcomes(passed=12)
    assert "these were running" not in result.stdout.str()
    result.stdout.fnmatch_lines(["*::t0?scripted-1? PASSED 1.00 resumed*", "*::t4?scripted-1? PASSED 1.00 *"])
    header = read_header(run_folder(root))
    assert (header.started_at, len(header.resumed), header.exit_status) == (began, 2, 0)
    ends = [(each.started_at, each.ended_at) for each in header.all_sessions]
    sessions = [tuple(map(datetime.fromisoformat, each)) for each in ends]
    took = sum((end - start).total_seconds() for start, end in sessions)
    assert (len(sessions), run_wall(header)) == (3, Figure(pytest.approx(took)))
    attempts = {entry.key.task: entry.attempts for entry in load_run(run_folder(root)).entries}
    interrupted_last = [1] * 4 + [2] * 5 + [1] * 3
    assert [attempts[f"t{n}"] for n in range(12)] == interrupted_last


def test_after_the_first_failure_the_rest_runs(pytester: pytest.Pytester) -> None:
    """A stored failure is told as if it was tried now; with -x it would end the run at once."""
    root = pytester.path
    project(root, [paid_task("bad", wants="Omar"), *(paid_task(f"t{n}", waits=True) for n in range(3))])
    write(root, {"evals/suite.yaml": SUITE.replace("capability", "regression")})
    first = run(pytester, "evals", "-x", "--maxfail=1", "--agent-concurrency=2")
    (root / "go").touch()
    refused = run(pytester, "evals", "-x", "--agent-resume")
    result = run(pytester, "evals", "--agent-resume")
    complete = run(pytester, "evals", "--agent-resume", "-rA")

    first.stdout.fnmatch_lines(["next: pytest evals --agent-concurrency=2 --agent-resume"])
    refused.stderr.fnmatch_lines(["*--agent-resume: cannot be combined with -x or --maxfail: 1 trial of *"])
    assert result.ret == complete.ret == 1
    result.assert_outcomes(failed=1, passed=3)
    complete.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines(["*resumed *: 1 had finished, 3 to run", "*answer contains 'Omar'*"])
    complete.stdout.fnmatch_lines(
        ["*resumed *: nothing to do: all 4 trials had finished", "FAILED 0.00 resumed *bad*"]
    )
    assert bills(root)["bad"] == 1


def test_what_a_crash_left_half_written_is_tried_again(pytester: pytest.Pytester) -> None:
    """Half a journal line, a line without its transcript, errored trials; what is whole is kept."""
    root = pytester.path
    tasks = [paid_task(f"t{n}") for n in range(5)]
    project(root, [*tasks, paid_task("broken", graders=[{"name": "breaks"}])])
    conftest = root / "evals/conftest.py"
    working = "def pytest_agenteval_register(registry):\n    registry.grader('breaks', Breaks)\n"
    grader = "class Breaks:\n    def grade(self, evidence):\n        raise OSError('disk')\n"
    conftest.write_text(
        conftest.read_text().replace("def pytest_agenteval_register(registry):\n", grader + working)
    )
    run(pytester, "evals")
    folder = run_folder(root)
    (written,) = folder.glob("journal-*")
    lines = written.read_text(encoding="utf-8").splitlines(keepends=True)
    last = next(line for line in lines if '"finished"' in line and '"t4"' in line)
    whole = [line for line in lines if line != last]
    written.write_text("".join(whole) + last[: len(last) // 2], encoding="utf-8")
    (transcripts,) = folder.glob("transcripts-*")
    torn = transcripts.read_text(encoding="utf-8").replace('"t3"', '"??"')
    transcripts.write_text(torn, encoding="utf-8")
    (folder / "stop").touch()
    (folder / "lost").write_text("gw0\ngw1\n")

    result = run(pytester, "evals", "--agent-resume", workers=1)

    result.assert_outcomes(passed=5, errors=1)
    result.stdout.fnmatch_lines(["*resumed *: 4 had finished, 1 rerun: errored, 1 to run"])
    assert bills(root) == {"t0": 1, "t1": 1, "t2": 1, "t3": 2, "t4": 2, "broken": 2}
    ended = {entry.key.task: entry.attempt for entry in load_run(folder).entries}
    assert ended == {"t0": 1, "t1": 1, "t2": 1, "t3": 2, "t4": 2, "broken": 2}
    assert files_left(root) == set()


def test_a_run_whose_rest_was_not_selected_says_how_to_try_it(pytester: pytest.Pytester) -> None:
    """What was selected has finished, and the run has not: the command is the one that it was begun with.

    Kind and threshold of its suites are those of today, as the endings of its trials are.
    """
    root = pytester.path
    project(root, [paid_task("bad", wants="Omar"), *(paid_task(f"t{n}", waits=True) for n in range(3))])
    write(root, {"evals/suite.yaml": SUITE.replace("capability", "regression")})
    run(pytester, "evals", "-x", "--agent-concurrency=2", "--agent-run-name=2part")
    (root / "go").touch()
    write(root, {"evals/suite.yaml": SUITE.replace("capability", "capability\ntask_pass_threshold: 0.5")})
    part = run(pytester, "evals", "-k", "bad", "--agent-resume=2part")

    part.stdout.fnmatch_lines(
        [
            "*resumed 2part: nothing to do: the only trial had finished",
            "next: pytest evals --agent-concurrency=2 --agent-run-name=2part --agent-resume",
        ]
    )
    (suite,) = read_header(run_folder(root)).suites
    assert (suite.kind, suite.threshold) == ("capability", 0.5)


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
    "--agent-resume evals": "'evals', which is not a run; to run evals, write --agent-resume=latest evals",
    "evals --agent-resume=nightly": "there is no run 'nightly'",
    "evals --agent-resume": "1 trial not in its plan: demo/beta[[]scripted-1]",
    f"{AGAIN} --repetitions=4": "1 trial not in its plan: demo/alpha[[]scripted-4]",
    f"{THREE} --agent-model=nop,scripted": "3 trials not in its plan: model nop",
    f"{THREE} --agent-prompt=short=short": "3 trials not in its plan: prompt short",
    f"{THREE} --agent-seed=4": "expected --agent-seed=0; found 4",
    f"{THREE} --agent-judge=openai/x": "expected judges none; found openai/x",
    f"{AGAIN} --repetitions=2..3": "expected --repetitions=a number, or none; found 2..3",
    f"{AGAIN} --agent-regrade=latest": "cannot be combined with --agent-regrade",
    f"{AGAIN} --agent-reuse": "cannot be combined with --agent-reuse",
    f"{AGAIN} --agent-audit": "cannot be combined with --agent-audit",
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


def test_a_name_that_is_redacted_is_in_the_plan(pytester: pytest.Pytester) -> None:
    """The plan of a run holds names without secrets: a task whose name has one goes on like any other."""
    project(pytester.path, [paid_task("alpha"), paid_task("of-CUST-17")])
    (pytester.path / "pytest.ini").unlink()
    write(
        pytester.path,
        {"pyproject.toml": "[tool.pytest.ini_options]\n[tool.agenteval]\nredact = ['CUST-\\d+']\n"},
    )
    run(pytester, "evals").assert_outcomes(passed=2)
    run(pytester, "evals", "--agent-resume").assert_outcomes(passed=2)
    assert bills(pytester.path) == {"alpha": 1, "of-CUST-17": 1}


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
    alone.stderr.fnmatch_lines(["*--agent-baseline: there is no run before first, which is resumed"])
    assert "first" in " ".join(result.outlines)


def test_a_regraded_run_is_begun_anew(pytester: pytest.Pytester) -> None:
    """It costs no agent; the sentence has the command."""
    root = pytester.path
    project(root, [paid_task("a")])
    run(pytester, "evals", "--agent-run-name=first")
    run(pytester, "evals", "--agent-regrade=first")
    result = run(pytester, "evals", "--agent-resume")
    result.stderr.fnmatch_lines(["*is a regraded run*start it again with --agent-regrade=first"])
    assert files_left_anywhere(root) == set()


def files_left_anywhere(root: Path) -> set[str]:
    """Name what processes of runs should have taken away."""
    return {path.name for path in root.glob(".agenteval/runs/*/.held")}

"""Gates: a run that does not reach what its suites ask ends with exit status 1, and says why in one line."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from pytest_agenteval.session.suite_gates import JudgedRun, RecheckedTasks
from pytest_agenteval.store.run_documents import GATES
from pytest_agenteval.store.run_reader import load_run
from tests.greeters import (
    greet,
    latest_header,
    set_mood,
    task_names,
    write_greeters,
    write_tried_greeters,
)
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
NIGHT, MORNING = task_names("night"), task_names("morning")


def gate_lines(result: pytest.RunResult) -> list[str]:
    """Give what a run says of its gates, and of what it tried again."""
    return [line for line in result.outlines if line.startswith(("gate: ", "recheck: "))]


RULES: list[tuple[dict[str, Any], str]] = [
    ({"score": 0.5, "buckets": {"morning": 0.9}, "errored": 0.05},
     "gate: held (greetings score 0.58; greetings morning 1.00; greetings 0 of 12 errored)"),
    ({"score": 0.583334}, "gate: broken: greetings score 0.583333 is below 0.583334"),
    ({"score": 0.8, "buckets": {"night": 0.9, "morning": 0.9}, "pass_hat_k": 0.9, "not_worse": True},
     "gate: broken: greetings score 0.58 is below 0.80; greetings pass^1 0.58 is below 0.90; "
     "greetings night 0.00 is below 0.90; "
     "greetings: no baseline is named (--agent-baseline, or baseline: in suite.yaml)"),
    ({"score": 0.1, "baseline": "kept.json", "recheck": 3}, "gate: broken: greetings: there is no b*"),
    ({"recheck": 3}, "gate: not judged, greetings: no baseline is named (--agent-baseline, *"),
    ({"better": False}, ""),
]  # fmt: skip


def test_each_rule_is_judged(pytester: pytest.Pytester) -> None:
    """What cannot be judged is broken; exit status and header say so too."""
    write_greeters(pytester.path, {"baseline": "../kept.json"})
    set_mood(pytester.path, "tired", NIGHT)

    result = greet(pytester, times=1)

    says = "there is no baseline evals/kept.json; agenteval baseline set * writes it"
    result.stdout.fnmatch_lines([f"gate: broken: greetings: {says}"])
    assert (result.ret, latest_header(pytester.path)["exit_status"]) == (1, 1)
    folder = pytester.path / ".agenteval/runs/latest"
    gates = json.loads((folder / GATES).read_text())
    for gate, line in RULES:
        (folder / GATES).write_text(json.dumps({**gates, "gates": [{**gates["gates"][0], "gate": gate}]}))
        judged = JudgedRun(load_run(folder), pytester.path, None).outcome(RecheckedTasks())
        assert fnmatch(judged.line, line), gate


def test_what_workers_did_is_judged_by_who_speaks_for_them(pytester: pytest.Pytester) -> None:
    """The command line comes before suite.yaml, key by key; ``none`` switches all of it off."""
    write_greeters(pytester.path, {"score": 0.5, "errored": 0.0})
    set_mood(pytester.path, "tired", NIGHT)

    narrower = greet(pytester, "--agent-gate=score=0.9,buckets.morning=1", workers=1, times=1)
    off = greet(pytester, "--agent-gate=none", times=1)

    assert gate_lines(narrower) == ["gate: broken: greetings score 0.58 is below 0.90"]
    assert (narrower.ret, off.ret, gate_lines(off)) == (1, 0, [])


def test_errored_trials_are_a_share_of_the_planned(pytester: pytest.Pytester) -> None:
    """An errored trial fails the run anyway; the gate says how many there were."""
    write_greeters(pytester.path, {"errored": 0.05, "score": 0.9})
    set_mood(pytester.path, "broken", MORNING[:1])

    result = greet(pytester, times=1)

    assert gate_lines(result) == [
        "gate: broken: greetings: 1 of 12 trials errored or were never run, more than 5 %"
    ]
    assert result.ret == 1


def test_nothing_but_errors_is_no_score(pytester: pytest.Pytester) -> None:
    """A score that nobody has breaks the gate."""
    write_greeters(pytester.path, {"score": 0.0})
    set_mood(pytester.path, "broken", [*MORNING, *NIGHT])

    assert gate_lines(greet(pytester, times=1)) == [
        "gate: broken: greetings score is unknown, no trial has a score"
    ]


@pytest.mark.parametrize(
    ("narrow", "workers"),
    [
        (("-k", "night"), 0),
        (("evals/greetings/night",), 0),
        (("--agent-sample=5",), 0),
        (("--ignore=evals/greetings/morning",), 1),
        (("--ignore-glob=*morning_*",), 0),
    ],
)
def test_a_part_of_a_suite_has_no_score_to_judge(
    pytester: pytest.Pytester, narrow: tuple[str, ...], workers: int
) -> None:
    """Said with how much was run; a bucket that was tried as a whole is judged."""
    write_greeters(pytester.path, {"score": 0.9, "buckets": {"night": 0.9}})

    result = greet(pytester, *narrow, workers=workers, times=1)

    tasks = 10 if "sample" in narrow[0] else 5
    assert gate_lines(result) == [
        f"gate: held (greetings night 1.00); not judged, greetings: {tasks} of 12 tasks were run"
    ]
    assert result.ret == 0


def test_a_bucket_of_a_part_breaks_the_gate(pytester: pytest.Pytester) -> None:
    """It was tried as a whole; the suite's score is not judged beside it."""
    write_greeters(pytester.path, {"score": 0.9, "buckets": {"night": 0.9}})
    set_mood(pytester.path, "tired", NIGHT)

    result = greet(pytester, "-k", "night", times=1)

    assert gate_lines(result) == ["gate: broken: greetings night 0.00 is below 0.90"]
    assert result.ret == 1


@pytest.mark.parametrize("folder", ["evals", "evals/greetings/night"])
def test_what_is_held_out_is_no_part_that_lacks(pytester: pytest.Pytester, folder: str) -> None:
    """The whole of a suite is the whole of the split that is run, collected or read from its files.

    Held-out tasks of a bucket of their own are not run as a rule: nobody has asked for their score.
    """
    write_greeters(pytester.path, {"score": 0.9, "buckets": {"night": 0.9, "dawn": 0.9}})
    late = {"id": "late", "split": "held_out", "input": {"content": "late"}}
    graders = [{"name": "answer_contains", "config": {"text": "Mina"}}]
    for bucket in ("night", "dawn"):
        held_out = {**late, "id": f"late_{bucket}", "graders": graders}
        write(pytester.path, {f"evals/greetings/{bucket}/late.json": held_out})

    result = greet(pytester, folder, times=1)

    part = "" if folder == "evals" else "greetings: 5 of 12 tasks were run; "
    score = "" if part else "greetings score 1.00; "
    unjudged = f"not judged, {part}greetings: no task of dawn is in this split"
    assert gate_lines(result) == [f"gate: held ({score}greetings night 1.00); {unjudged}"]
    assert result.ret == 0


def test_a_baseline_that_is_none_is_refused_with_who_names_it(pytester: pytest.Pytester) -> None:
    """Before anything is tried."""
    write_greeters(pytester.path, {"baseline": "../../moods.json"})

    result = greet(pytester)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    says = "evals/greetings/suite.yaml: gate.baseline: *moods.json: expected a baseline's file*"
    result.stderr.fnmatch_lines([f"ERROR: {says}"])


def test_a_part_alone_is_not_judged(pytester: pytest.Pytester) -> None:
    """Neither held nor broken: exit status 0, and said."""
    write_greeters(pytester.path, {"score": 0.9})

    result = greet(pytester, "-k", "night_0", times=1)

    assert gate_lines(result) == ["gate: not judged, greetings: 1 of 12 tasks were run"]
    assert result.ret == 0


def test_a_suites_own_baseline_is_compared_with(pytester: pytest.Pytester) -> None:
    """``baseline:`` alone asks for not worse; ``better: true`` for a bucket at least; a number for less."""
    write_greeters(pytester.path, {"baseline": "../kept.json"})
    set_mood(pytester.path, "tired", NIGHT[:1])
    greet(pytester)
    main(["baseline", "set", "latest"])
    assert (pytester.path / "evals/kept.json").exists()

    set_mood(pytester.path, "tired", NIGHT)
    worse = greet(pytester)
    same = greet(pytester, "--agent-gate=better=true", "-k", "not night or night_0")
    set_mood(pytester.path, "tired", [*NIGHT[:1], *MORNING[:1]])
    unsure = greet(pytester, "--agent-gate=not_worse=0.05")

    assert gate_lines(worse) == ["gate: broken: night is worse (0.80 -> 0.00)"]
    assert gate_lines(same) == ["gate: not judged, greetings: 8 of 12 tasks were run"]
    (line,) = gate_lines(unsure)
    assert line.startswith("gate: broken: greetings may be worse by more than 0.05: 12 tasks are too few")


def test_nothing_better_breaks_a_gate_that_wants_it(pytester: pytest.Pytester) -> None:
    """Until a bucket is better; a task that is new has nothing to be compared with."""
    write_greeters(pytester.path, {"better": True})
    set_mood(pytester.path, "tired", NIGHT)
    greet(pytester)
    same = greet(pytester, "--agent-baseline=latest")
    set_mood(pytester.path, "fine", [])
    better = greet(pytester, "--agent-baseline=latest")
    task = pytester.path / "evals/greetings/night/night_0.json"
    task.with_name("late.json").write_text(task.read_text().replace("night_0", "late"))
    new = greet(pytester, "--agent-baseline=latest", "--agent-gate=not_worse=true", "-k", "late")

    assert gate_lines(same) == ["gate: broken: nothing of greetings is better"]
    assert gate_lines(better) == ["gate: held (greetings better)"]
    assert "greetings: no task can be compared with the baseline" in gate_lines(new)[0]
    assert new.ret == 1


def test_a_gate_never_turns_another_exit_status(pytester: pytest.Pytester) -> None:
    """A failed trial stays 1 where the gate holds, with -x too, and nothing to run stays 5."""
    write_greeters(pytester.path, {"score": 0.5, "errored": 0.5}, kind="regression")
    set_mood(pytester.path, "tired", NIGHT[:1])

    for args in ((), ("-x",), ("--lf",)):
        result = greet(pytester, *args, times=1)
        assert result.ret == 1, args
        assert len(gate_lines(result)) == 1
    assert greet(pytester, "-k", "nobody").ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_bucket_that_no_task_has_is_a_problem(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its line and the nearest name, before anything is tried, and by ``validate``."""
    write_greeters(pytester.path, {"buckets": {"nigth": 0.5}})

    result = greet(pytester)
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agenteval.plugin")
    status = main(["validate", "evals"])

    assert (result.ret, status) == (pytest.ExitCode.USAGE_ERROR, 1)
    for text in (str(result.stdout) + str(result.stderr), capsys.readouterr().out):
        assert "evals/greetings/suite.yaml:1: gate.buckets.nigth" in text
        assert "did you mean 'night'?" in text


def test_a_gate_is_read_strictly(pytester: pytest.Pytester) -> None:
    """By file, line, key, expected and found, as everything in suite.yaml; all that is wrong at once."""
    gate = {"score": 2, "scor": 1, "not_worse": 3, "recheck": 0, "buckets": {"night": "high"}}
    write_greeters(pytester.path, gate)

    out = str(greet(pytester).stdout)

    for says in (
        "gate.score\n  expected: a number from 0 to 1: the least mean score of the suite",
        "gate.scor\n  expected: one of baseline, better, buckets",
        "gate.not_worse\n  expected: true: neither the suite nor a bucket is worse",
        "gate.recheck\n  expected: a whole number, 1 or more",
        "gate.buckets.night\n  expected: a number from 0 to 1",
    ):
        assert f"evals/greetings/suite.yaml:1: {says}" in out


def test_broken_tasks_are_tried_again_before_they_count(pytester: pytest.Pytester) -> None:
    """A task that passes then is not broken; its run stands in the run's folder, and latest stays."""
    write_tried_greeters(pytester, {"recheck": 2, "errored": 0.1})
    first = latest_header(pytester.path)["name"]

    moods = {NIGHT[0]: "tired", NIGHT[1]: "asleep", NIGHT[2]: "asleep"}
    write(pytester.path, {"moods.json": moods})
    result = greet(pytester, "--agent-baseline=kept.json", workers=1)

    name = latest_header(pytester.path)["name"]
    tried, line = gate_lines(result)
    assert "agenteval: recheck: 3 broken tasks tried again" in result.outlines
    assert tried.startswith(
        "recheck: 3 broken tasks tried 2 times more: night_0 passed 2 of 2, night_1 passed 0 of 2, "
        f"night_2 passed 0 of 2 (run: .agenteval/runs/{name}/recheck/"
    )
    assert line == (
        "gate: broken: night_1 is broken, and passed none of 2 trials more; "
        "night_2 is broken, and passed none of 2 trials more"
    )
    assert result.ret == 1
    assert name != first
    assert len(list((pytester.path / ".agenteval/runs").glob("2*"))) == 2


def test_a_recheck_leaves_no_summary_and_no_report_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job's summary is the run's, which says what was tried again, and so is the report.

    A comparison says what came of the gates that the new run was tried with; a broken task cannot be tried
    again then.
    """
    write_tried_greeters(pytester, {"not_worse": True, "recheck": 1})
    set_mood(pytester.path, "tired", NIGHT[:1])
    summary = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("AGENTEVAL_REPORT", str(pytester.path / "report.md"))

    result = greet(pytester, "--agent-baseline=latest")

    assert result.ret == 0
    assert gate_lines(result)[1].startswith("gate: held (")
    assert "night_0 passed 1 of 1 when tried again" in gate_lines(result)[1]
    (output,) = pytester.path.glob(".agenteval/runs/latest/recheck/*.txt")
    assert "report: " not in output.read_text()
    assert "12 tasks" in (pytester.path / "report.md").read_text()
    lines = summary.read_text().splitlines()
    assert lines.count("## Agent evals") == 1
    assert any(line.startswith("recheck: 1 broken task tried") for line in lines)

    capsys.readouterr()
    statuses = [main(["compare", "kept.json", name]) for name in ("latest", "kept.json")]

    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("gate: ")]
    assert lines == ["gate: broken: recheck: no agent acts while comparing, to try night_0 again"]
    assert statuses == [0, 0]


def test_what_narrowed_the_run_narrows_no_recheck(pytester: pytest.Pytester) -> None:
    """The project's own sample and endings are for the run: what they chose is all tried again."""
    write_tried_greeters(pytester, {"recheck": 1})
    project = '[tool.agenteval]\nsample = 1\nonly = "passed"\n'
    (pytester.path / "pyproject.toml").write_text(project)
    set_mood(pytester.path, "asleep", [*MORNING, *NIGHT])

    result = greet(pytester, "--agent-baseline=latest")

    tried, line = gate_lines(result)
    assert tried.startswith("recheck: 2 broken tasks tried 1 time more: ")
    assert line.count("is broken, and passed none of 1 trials more") == 2


def test_nothing_is_tried_again_while_regrading(pytester: pytest.Pytester) -> None:
    """Nobody can tell whether chance has broken the task: the gate is not held in silence."""
    write_tried_greeters(pytester, {"recheck": 1})
    set_mood(pytester.path, "asleep", NIGHT[:1])
    greet(pytester)

    result = run(pytester, "evals", "--agent-regrade=latest", "--agent-baseline=kept.json")

    assert gate_lines(result) == [
        "gate: broken: recheck: no agent acts while regrading, to try night_0 again"
    ]


def test_a_suite_beside_the_baselines_own_is_no_fault(pytester: pytest.Pytester) -> None:
    """The baseline of one suite says nothing of another, which is said."""
    write_tried_greeters(pytester)
    other = {"more/suite.yaml": suite("more"), "more/hi.json": task("hi")}
    write(pytester.path, {f"evals/{name}": content for name, content in other.items()})

    result = greet(pytester, "--agent-baseline=kept.json")

    (line,) = gate_lines(result)
    assert "greetings shows no fall" in line
    assert "not judged, more: no task can be compared with the baseline" in line


def test_gates_that_cannot_be_read_are_no_worse_run(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """A damaged file, or a later version's rule: exit status 2 in one line, for 1 says worse."""
    write_tried_greeters(pytester)
    later = '{"v": 1, "gates": [{"suite": "greetings", "gate": {"sky": 1}, "tasks": {}}]}'

    for gates in ("{", '{"v": 1}', later):
        (pytester.path / ".agenteval/runs/latest/gates.json").write_text(gates)
        assert main(["compare", "latest", "latest"]) == 2
        assert "gates.json: the run's gates cannot be read (" in capsys.readouterr().err


def test_broken_tasks_alone_break_nothing(pytester: pytest.Pytester) -> None:
    """Without ``recheck`` chance may have broken them: they are named, and no more."""
    write_tried_greeters(pytester, {"errored": 0.1})
    set_mood(pytester.path, "tired", NIGHT[:1])

    result = greet(pytester, "-v", "--agent-baseline=latest")

    assert "Broken (all passed, now none does): night_0" in str(result.stdout)
    assert gate_lines(result) == ["gate: held (greetings 0 of 36 errored)"]
    assert result.ret == 0


def test_a_recheck_that_cannot_be_run_breaks_the_gate(pytester: pytest.Pytester) -> None:
    """With the last line of what pytest said."""
    write_tried_greeters(pytester, {"recheck": 2})
    set_mood(pytester.path, "tired", NIGHT[:1])
    conftest = pytester.path / "conftest.py"
    conftest.write_text(
        f"{conftest.read_text()}\nif '--agent-gate=none' in sys.argv:\n    raise SystemExit(7)\n"
    )

    result = greet(pytester, "--agent-baseline=latest")

    assert gate_lines(result)[-1].startswith("gate: broken: recheck: pytest left no run")
    assert result.ret == 1


WAVERING = """
calls = {}


def greet(task_input, ctx):
    name = task_input["content"]
    calls[name] = calls.get(name, 0) + 1
    return "Hello!" if name.startswith("night") and calls[name] == 2 else "Hello, Mina!"


def pytest_agenteval_register(registry):
    registry.agent("greeter", greet)
"""


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ((), 'noise: a run in which nothing changed misses "score 0.85" in about * % of runs, '
             '"night 0.60" in about * % of runs (agenteval gate-check)'),
        (("--agent-gate=score=0.2,buckets.night=0.1",), ""),
        (("-k", "morning"), ""),
        (("--repetitions=1",), ""),
    ],
)  # fmt: skip
def test_a_floor_that_runs_often_miss_where_nothing_changed_is_named(
    pytester: pytest.Pytester, args: tuple[str, ...], line: str
) -> None:
    """By the run's own trials; not where few runs miss it, where it is not judged, nor where none repeats."""
    write_greeters(pytester.path, {"score": 0.85, "buckets": {"night": 0.6, "morning": 0.5}})
    write(pytester.path, {"conftest.py": WAVERING})

    result = greet(pytester, *args)

    noise = [each for each in result.outlines if each.startswith("noise: ")]
    assert len(noise) == bool(line)
    result.stdout.fnmatch_lines([line] * bool(line))

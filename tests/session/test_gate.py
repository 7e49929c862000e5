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
from tests.suites import run, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")
NIGHT, MORNING = task_names("night"), task_names("morning")
USAGE, NOTHING = pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED


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


PARTLY = {"score": 0.9, "buckets": {"night": 0.9}}
HELD = "gate: held (greetings night 1.00); not judged, greetings: {} of 12 tasks were run"
BELOW = "gate: broken: greetings score 0.58 is below 0.90"
# The gate, who fails and how, the options, whether workers run it; the line, and the exit status.
RUNS: list[tuple[dict[str, Any], dict[str, list[str]], str, int, str, int]] = [
    # The command line comes before suite.yaml, key by key; ``none`` switches all of it off.
    ({"score": 0.5}, {"tired": NIGHT}, "--agent-gate=score=0.9,buckets.morning=1", 1, BELOW, 1),
    ({"score": 0.9}, {"tired": NIGHT}, "--agent-gate=none", 0, "", 0),
    # An errored trial fails the run anyway; the gate says how many there were.
    ({"errored": 0.05, "score": 0.9}, {"broken": MORNING[:1]}, "", 0,
     "gate: broken: greetings: 1 of 12 trials errored or were never run, more than 5 %", 1),
    ({"score": 0.0}, {"broken": [*MORNING, *NIGHT]}, "", 0,
     "gate: broken: greetings score is unknown, no trial has a score", 1),
    # A part of a suite has no score to judge; a bucket that was run as a whole has.
    (PARTLY, {}, "-k night", 0, HELD.format(5), 0),
    (PARTLY, {}, "evals/greetings/night", 0, HELD.format(5), 0),
    (PARTLY, {}, "--agent-sample=5", 0, HELD.format(10), 0),
    (PARTLY, {}, "--ignore=evals/greetings/morning", 1, HELD.format(5), 0),
    (PARTLY, {}, "--ignore-glob=*morning_*", 0, HELD.format(5), 0),
    (PARTLY, {"tired": NIGHT}, "-k night", 0, "gate: broken: greetings night 0.00 is below 0.90", 1),
    ({"score": 0.9}, {}, "-k night_0", 0, "gate: not judged, greetings: 1 of 12 tasks were run", 0),
    # A failed trial stays a failure where the gate holds, and nothing to run stays 5.
    ({"score": 0.5}, {"broken": NIGHT[:1]}, "-x", 0, "gate: held (greetings score 1.00)", 1),
    ({"score": 0.5}, {}, "-k nobody", 0, "", NOTHING),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_a_run_is_judged_by_what_was_run_of_its_suites(pytester: pytest.Pytester, number: int) -> None:
    """Whole suites and whole buckets are; every run says in one line what came of it."""
    gate, moods, options, workers, line, status = RUNS[number]
    write_greeters(pytester.path, gate)
    for mood, names in moods.items():
        set_mood(pytester.path, mood, names)

    result = greet(pytester, *options.split(), workers=workers, times=1)

    assert len(gate_lines(result)) == bool(line)
    result.stdout.fnmatch_lines([line.replace("[", "[[]")] * bool(line))
    assert result.ret == status


@pytest.mark.parametrize("folder", ["evals", "evals/greetings/night"])
def test_what_is_held_out_is_no_part_that_lacks(pytester: pytest.Pytester, folder: str) -> None:
    """The whole of a suite is the whole of the split that is run, collected or read from its files.

    Held-out tasks of a bucket of their own are not run as a rule: nobody has asked for their score.
    """
    write_greeters(pytester.path, {"score": 0.9, "buckets": {"night": 0.9, "dawn": 0.9}})
    for bucket in ("night", "dawn"):
        late = task(f"late_{bucket}", script=None, split="held_out")
        write(pytester.path, {f"evals/greetings/{bucket}/late.json": late})

    result = greet(pytester, folder, times=1)

    part = "" if folder == "evals" else "greetings: 5 of 12 tasks were run; "
    score = "" if part else "greetings score 1.00; "
    unjudged = f"not judged, {part}greetings: no task of dawn is in this split"
    assert gate_lines(result) == [f"gate: held ({score}greetings night 1.00); {unjudged}"]
    assert result.ret == 0


def test_a_baseline_decides_who_is_worse_and_who_is_better(pytester: pytest.Pytester) -> None:
    """``baseline:`` alone asks for not worse; ``better: true`` for a bucket at least; a number for less."""
    write_greeters(pytester.path, {"baseline": "../kept.json"})
    set_mood(pytester.path, "tired", NIGHT[:1])
    greet(pytester)
    main(["baseline", "set", "latest"])
    assert (pytester.path / "evals/kept.json").exists()

    set_mood(pytester.path, "tired", NIGHT)
    worse = greet(pytester)
    same = greet(pytester, "--agent-gate=better=true", "--agent-baseline=latest")
    set_mood(pytester.path, "tired", [*NIGHT[:1], *MORNING[:1]])
    unsure = greet(pytester, "--agent-gate=not_worse=0.05")
    better = greet(pytester, "--agent-gate=better=true", f"--agent-baseline={name_of(worse)}")
    late = (pytester.path / "evals/greetings/night/night_0.json").read_text().replace("night_0", "late")
    write(pytester.path, {"evals/greetings/night/late.json": late})
    new = greet(pytester, "-k", "late")

    assert gate_lines(worse) == ["gate: broken: night is worse (0.80 -> 0.00)"]
    assert gate_lines(same) == ["gate: broken: nothing of greetings is better"]
    (line,) = gate_lines(unsure)
    assert line.startswith("gate: broken: greetings may be worse by more than 0.05: 12 tasks are too few")
    assert gate_lines(better)[0].startswith("gate: held (")
    assert "greetings: no task can be compared with the baseline" in gate_lines(new)[0]
    assert new.ret == 1


def name_of(result: pytest.RunResult) -> str:
    """Give the name of the run that printed this."""
    (line,) = [line for line in result.outlines if line.startswith("run: ")]
    return line.rpartition("/")[2]


def test_what_cannot_be_a_gate_is_refused_before_anything_runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By file, line, key, expected and found, all at once, and the nearest bucket; by ``validate`` too."""
    gate = {"score": 2, "scor": 1, "not_worse": 3, "recheck": 0, "buckets": {"night": "high"}}
    write_greeters(pytester.path, gate)
    out = str(greet(pytester).stdout)
    for says in (
        "gate.score\n  expected: a number from 0 to 1: the least mean score of the suite",
        "gate.scor\n  expected: one of baseline, better, buckets",
        "gate.not_worse\n  expected: true: neither the suite nor a bucket may be worse",
        "gate.recheck\n  expected: a whole number, 1 or more",
        "gate.buckets.night\n  expected: a number from 0 to 1",
    ):
        assert f"evals/greetings/suite.yaml:1: {says}" in out

    write_greeters(pytester.path, {"baseline": "../../moods.json"})
    none = greet(pytester)
    none.stderr.fnmatch_lines(["ERROR: *suite.yaml: gate.baseline: *moods.json: expected a baseline's file*"])

    write_greeters(pytester.path, {"buckets": {"nigth": 0.5}})
    result = greet(pytester)
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_agenteval.plugin")
    status = main(["validate", "evals"])
    assert (none.ret, result.ret, status) == (USAGE, USAGE, 1)
    for text in (str(result.stdout) + str(result.stderr), capsys.readouterr().out):
        assert "evals/greetings/suite.yaml:1: gate.buckets.nigth" in text
        assert "did you mean 'night'?" in text


def test_broken_tasks_are_tried_again_before_they_count(pytester: pytest.Pytester) -> None:
    """A task that passes then is not broken; its run stands in the run's folder, and latest stays."""
    write_tried_greeters(pytester, {"recheck": 2, "errored": 0.1})
    first = latest_header(pytester.path)["name"]

    write(pytester.path, {"moods.json": {NIGHT[0]: "tired", NIGHT[1]: "asleep", NIGHT[2]: "asleep"}})
    result = greet(pytester, "--agent-baseline=kept.json", workers=1)

    name = latest_header(pytester.path)["name"]
    tried, line = gate_lines(result)
    assert "agenteval: recheck: 3 broken tasks run again" in result.outlines
    assert tried == (
        "recheck: 3 broken tasks run 2 times more: night_0 passed 2 of 2, night_1 passed 0 of 2, "
        f"night_2 passed 0 of 2 (run: .agenteval/runs/{name}/recheck/1)"
    )
    assert line == (
        "gate: broken: night_1 is broken, and passed none of 2 trials more; "
        "night_2 is broken, and passed none of 2 trials more"
    )
    assert (result.ret, name != first) == (1, True)
    runs = pytester.path / ".agenteval/runs"
    assert len(list(runs.glob("2*"))) == 2
    # Seeds that the repetitions of the run itself have used are not used again.
    assert json.loads((runs / name / "recheck/1/run.json").read_text())["seed"] == 3


def test_a_recheck_leaves_no_summary_and_no_report_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job's summary is the run's, which says what was tried again, and so is the report.

    Where no agent acts, in a comparison or while grading again, a broken task cannot be tried again.
    """
    write_tried_greeters(pytester, {"not_worse": True, "recheck": 1})
    set_mood(pytester.path, "tired", NIGHT[:1])
    summary = pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("AGENTEVAL_REPORT", str(pytester.path / "report.md"))

    result = greet(pytester, "--agent-baseline=latest")

    assert result.ret == 0
    assert gate_lines(result)[1].startswith("gate: held (")
    assert "night_0 passed 1 of 1 when run again" in gate_lines(result)[1]
    assert "report: " not in (pytester.path / ".agenteval/runs/latest/recheck/pytest.txt").read_text()
    assert "12 tasks" in (pytester.path / "report.md").read_text()
    lines = summary.read_text().splitlines()
    assert lines.count("## Agent evals") == 1
    assert any(line.startswith("recheck: 1 broken task run") for line in lines)

    capsys.readouterr()
    statuses = [main(["compare", "kept.json", name]) for name in ("latest", "kept.json")]
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("gate: ")]
    assert lines == ["gate: broken: recheck: no agent runs while comparing, so night_0 cannot run again"]
    assert statuses == [0, 0]

    regraded = run(pytester, "evals", "--agent-regrade=latest", "--agent-baseline=kept.json")
    says = "gate: broken: recheck: no agent runs while regrading, so night_0 cannot run again"
    assert gate_lines(regraded) == [says]


def test_what_narrowed_the_run_narrows_no_recheck(pytester: pytest.Pytester) -> None:
    """The project's own sample and endings are for the run: what they chose is all tried again."""
    write_tried_greeters(pytester, {"recheck": 1})
    write(pytester.path, {"pyproject.toml": '[tool.agenteval]\nsample = 1\nonly = "passed"\n'})
    set_mood(pytester.path, "asleep", [*MORNING, *NIGHT])

    tried, line = gate_lines(greet(pytester, "--agent-baseline=latest"))

    assert tried.startswith("recheck: 2 broken tasks run 1 time more: ")
    assert line.count("is broken, and passed none of 1 trial more") == 2


def test_a_recheck_that_cannot_be_run_breaks_the_gate(pytester: pytest.Pytester) -> None:
    """With the last line of what pytest said; without ``recheck`` broken tasks are named, and no more."""
    write_tried_greeters(pytester, {"recheck": 2})
    set_mood(pytester.path, "tired", NIGHT[:1])
    plain = greet(pytester, "-v", "--agent-baseline=kept.json", "--agent-gate=none")
    conftest = pytester.path / "conftest.py"
    ending = "if '--agent-gate=none' in sys.argv:\n    raise SystemExit(7)\n"
    conftest.write_text(f"{conftest.read_text()}\n{ending}")

    result = greet(pytester, "--agent-baseline=kept.json")

    assert gate_lines(result)[-1].startswith("gate: broken: recheck: pytest left no run (exit status 7)")
    assert result.ret == 1
    assert "Broken (all passed, now none does): night_0" in str(plain.stdout)


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


WAVERING = """
calls = {}


def greet(task_input, ctx):
    name = task_input["content"]
    calls[name] = calls.get(name, 0) + 1
    return "Hello!" if name.startswith("night") and calls[name] == 2 else "Hello, Mina!"


def pytest_agenteval_register(registry):
    registry.agent("greeter", greet)
"""
NOISE = 'noise: a run in which nothing changed misses "score 0.85" in about * % of runs, "night 0.60" in *'


def test_a_floor_that_runs_often_miss_where_nothing_changed_is_named(pytester: pytest.Pytester) -> None:
    """By the run's own trials; not where few runs miss it, where it is not judged, nor where none repeats."""
    write_greeters(pytester.path, {"score": 0.85, "buckets": {"night": 0.6, "morning": 0.5}})
    write(pytester.path, {"conftest.py": WAVERING})

    for options in ("", "--agent-gate=score=0.2,buckets.night=0.1", "-k morning", "--repetitions=1"):
        result = greet(pytester, *options.split())
        noise = [each for each in result.outlines if each.startswith("noise: ")]
        assert [fnmatch(each, NOISE) for each in noise] == [True] * (not options), options

"""Figures over real denominators, worked out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.explanation import ending_reason
from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.transcript import JUDGE_ASK, Event, Figure, Transcript, Usage
from pytest_agenteval.records.trial import TapeCounts
from pytest_agenteval.reports.group_statistics import Rate
from pytest_agenteval.reports.junit_properties import trial_properties
from pytest_agenteval.reports.run_screen import screen_lines
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import RunModel, RunSuite
from pytest_agenteval.store.run_reader import Run, load_run

from .runs import CAPABILITY, MIXED, PLANNED, key, store_run, trial


def begin(run: Run, *attempts: tuple[str, int]) -> None:
    """Write down that these attempts of tasks began, without an end."""
    started = {"v": 1, "kind": "started", "suite": "s", "agent": "card", "model": "rules", "repetition": 1}
    lines = [json.dumps({**started, "task": task, "attempt": attempt}) for task, attempt in attempts]
    (run.folder / "journal-gw1.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_averages_are_over_what_was_averaged_and_say_of_how_many(tmp_path: Path) -> None:
    """Of 8 planned trials 1 is errored and 2 never ran: the mean is (.75 + 1 + 0) / 3 tasks."""
    [suite] = view_of(store_run(tmp_path, MIXED, PLANNED)).suites
    total = suite.total

    assert (total.tasks, total.planned, total.averaged, total.not_run) == (4, 8, 5, 2)
    assert total.errored == {"provider": 1}
    assert total.mean is not None
    assert (total.mean.mean, total.mean.trials, total.mean.tasks) == (pytest.approx(1.75 / 3), 5, 3)
    assert total.full == 0.4


def test_a_task_with_an_errored_repetition_says_nothing_of_k(tmp_path: Path) -> None:
    """Task b has one averaged trial: it counts in pass@1 = (1/2 + 1 + 0) / 3, not in pass@2 and pass^2."""
    total = view_of(store_run(tmp_path, MIXED, PLANNED)).suites[0].total

    assert total.k == 2
    assert total.pass_1 == Rate(0.5, 3)
    assert total.pass_at_k == Rate(0.5, 2)
    assert total.pass_hat_k == Rate(0.0, 2)


@pytest.mark.parametrize(
    ("suite", "kind", "passed"),
    [
        (CAPABILITY, "capability", 2),
        (RunSuite("s", "regression"), "regression", 1),
        (RunSuite("s", "regression", threshold=0.7), "regression", 2),
    ],
    ids=["one-pass-will-do", "all-must-pass", "mean-of-0.7"],
)
def test_tasks_pass_by_the_kind_and_threshold_of_their_suite(
    tmp_path: Path, suite: RunSuite, kind: Kind, passed: int
) -> None:
    """Means are a .75, b 1, c 0; d is not decided, as none of its trials is."""
    trials = [replace(some, kind=kind) for some in MIXED]
    total = view_of(store_run(tmp_path, trials, PLANNED, suites=(suite,))).suites[0].total

    assert (total.tasks_passed, total.tasks_decided) == (passed, 3)


def test_a_task_passes_by_its_own_mean_where_a_threshold_is_below_1(tmp_path: Path) -> None:
    """Tasks with as many trials and passes may differ in it."""
    suite = RunSuite("s", "regression", threshold=0.7)
    trials = [trial(task, 1, score, kind="regression") for task, score in (("a", 0.6), ("b", 0.8))]
    total = view_of(store_run(tmp_path, trials, suites=(suite,))).suites[0].total

    assert (total.tasks_passed, total.tasks_decided) == (1, 2)


def test_buckets_are_rows_in_the_order_of_planning(tmp_path: Path) -> None:
    """A bucket's row counts its own trials only."""
    [suite] = view_of(store_run(tmp_path, MIXED, [*PLANNED[4:], *PLANNED[:4]])).suites

    assert [(row.name, row.tasks, row.averaged, row.planned) for row in suite.rows] == [
        ("y", 2, 2, 4),
        ("x", 2, 3, 4),
    ]
    assert suite.rows[1].mean is not None
    assert suite.rows[1].mean.mean == 1.75 / 2
    assert suite.rows[0].mean is not None
    assert suite.rows[0].mean.interval is None


def test_without_a_plan_what_was_seen_is_what_was_planned(tmp_path: Path) -> None:
    """A trial that was begun and never finished is not run; one that ended before, at an attempt, is."""
    run = store_run(tmp_path, MIXED)
    begin(run, ("d", 1), ("a", 2))
    [suite] = view_of(load_run(run.folder)).suites

    assert (suite.total.planned, suite.total.not_run, suite.total.interrupted) == (7, 1, 1)


def test_what_an_attempt_took_that_never_ended_is_unknown(tmp_path: Path) -> None:
    """One unknown part for each, whether the trial ended at another attempt or never."""
    usage = Usage(100, 10, cost_usd=0.25, asks=1)
    again = trial("a", 1, 1.0, attempt=2, transcript=Transcript(usage=usage), seconds=1.5)
    run = store_run(tmp_path, [again])
    begin(run, ("a", 1), ("b", 1))
    [suite] = view_of(load_run(run.folder)).suites

    spent = suite.total.spent
    assert (spent.tokens, spent.cost, spent.seconds) == (Figure(110, 2), Figure(0.25, 2), Figure(1.5, 2))
    assert [row.spent for row in suite.rows] == [spent]


def test_each_model_and_variant_has_its_own_figures(tmp_path: Path) -> None:
    """Trials of different models are never averaged together."""
    trials = [
        trial("a", 1, 1.0),
        trial("a", 1, 0.5, key=key("a", 1, "claude")),
        trial("a", 1, 0.0, key=key("a", 1, "claude", "short")),
    ]
    view = view_of(store_run(tmp_path, trials))

    found = {suite.who: suite.total.mean.mean for suite in view.suites if suite.total.mean}
    assert found == {"rules": 1.0, "claude": 0.5, "claude@short": 0.0}


def test_offline_models_are_said_to_be_no_llm(tmp_path: Path) -> None:
    """Nobody may take a rule-based player for a model; a real model gets no note."""
    models = tuple(RunModel(name, name, offline=True) for name in ("rules", "oracle", "nop", "scripted"))
    models += (RunModel("mine", "mine", offline=True, note="a stub"), RunModel("claude", "anthropic/claude"))
    view = view_of(store_run(tmp_path, [trial("a", 1, 1.0)], models=models))

    assert view.notes == (
        "rules: rule-based, no LLM",
        "oracle: follows the reference, no LLM",
        "nop: does nothing",
        "scripted: follows a script",
        "mine: a stub",
    )
    assert view.suites[0].note == "rule-based, no LLM"


def test_what_was_spent_counts_every_attempt_and_unknown_prices_stay_unknown(tmp_path: Path) -> None:
    """Averages take the last attempt, but the first one was paid for too."""
    usage = {
        1: Usage(100, 10, cost_usd=0.25, asks=1),
        2: Usage(200, 20, cost_usd=0.5, asks=1),
        3: Usage(50, 5, cost_usd=None, asks=1),
    }
    run = store_run(tmp_path, [trial("a", 1, 0.0, transcript=Transcript(usage=usage[1]), seconds=4.0)])
    again = trial("a", 1, 1.0, attempt=2, transcript=Transcript(usage=usage[2]), seconds=1.5)
    other = trial("b", 1, 1.0, transcript=Transcript(usage=usage[3]), seconds=0.25)
    JournalWriter(run.folder, "w2").finished([again, other])
    total = view_of(load_run(run.folder)).suites[0].total

    assert total.mean is not None
    assert (total.mean.mean, total.averaged, total.retried) == (1.0, 2, 1)
    assert (total.spent.tokens, total.spent.cost) == (Figure(385), Figure(0.75, 1))
    assert total.spent.seconds == Figure(5.75)


def test_how_long_judges_took_is_unknown(tmp_path: Path) -> None:
    """Their seconds are not measured; without a judge there are none, which is no unknown figure."""
    asked = Event(0.1, JUDGE_ASK, "", {"usage": Usage(9, 9, cost_usd=0.5, asks=2).to_json()})
    judged = trial("a", 1, 1.0, transcript=Transcript(events=(asked,)))
    with_judge, without = (
        view_of(store_run(tmp_path, [each])).suites[0].total.judging for each in (judged, trial("a", 1, 1.0))
    )

    assert (with_judge.tokens, with_judge.seconds, without.seconds) == (Figure(18), Figure(0, 1), Figure())


def test_a_cost_of_which_nothing_is_known_is_not_zero(tmp_path: Path) -> None:
    """Free and unknown are different things."""
    free = view_of(store_run(tmp_path, [trial("a", 1, 1.0)])).suites[0].total.spent
    unknown = trial("a", 1, 1.0, transcript=Transcript(usage=Usage(9, 9, cost_usd=None)))
    dear = view_of(store_run(tmp_path, [unknown])).suites[0].total.spent

    assert (free.cost, dear.cost) == (Figure(), Figure(0, 1))


def test_tokens_that_nobody_told_are_not_called_none(tmp_path: Path) -> None:
    """A model that says nothing of its usage took some; one that was not asked, or is ours, took none."""
    uncounted, counted = (
        Usage(cost_usd=None, asks=2, attempts=2),
        Usage(70, 5, cost_usd=None, asks=1, attempts=1),
    )
    ours = Usage(asks=3, attempts=3)

    def took(*usages: Usage) -> str:
        trials = [
            trial(f"t{at}", 1, 1.0, transcript=Transcript(usage=each)) for at, each in enumerate(usages)
        ]
        run = store_run(tmp_path / str(len(list(tmp_path.iterdir()))), trials)
        return " ".join(line.text for line in screen_lines(view_of(run), verbosity=1))

    assert "; tokens unknown; cost unknown" in took(uncounted)
    assert "; 75 tokens + unknown; cost unknown" in took(uncounted, counted)
    assert "agents 0.0 s  run: " in took(ours)
    assert "agenteval.tokens" not in dict(
        trial_properties(trial("a", 1, 1.0, transcript=Transcript(usage=uncounted)))
    )


def test_limits_undecided_grades_and_cassettes_are_counted(tmp_path: Path) -> None:
    """Undecided grades are counted by grader, in errored trials too; a limited trial stays in the mean."""
    unsure = (Grade("g", 1.0, ""), Grade("judge", None, "unknown"))
    trials = [
        trial("a", 1, 1.0, grades=unsure, limit="steps", tool_tape=TapeCounts(3, 0, 1)),
        trial("a", 2, None, grades=unsure, cause="ungraded", tool_tape=TapeCounts(1, 2, 0)),
        trial("b", 1, 0.0, limit="seconds", chat_tape=TapeCounts(7)),
    ]
    total = view_of(store_run(tmp_path, trials)).suites[0].total

    assert total.limited == {"steps": 1, "seconds": 1}
    assert total.undecided == {"judge": 2}
    assert total.errored == {"ungraded": 1}
    assert (total.tools, total.chats) == (TapeCounts(4, 2, 1), TapeCounts(7))
    assert total.mean is not None
    assert total.mean.mean == 0.5


def test_misses_are_worst_first_and_errored_trials_last(tmp_path: Path) -> None:
    """A failed regression comes before a missed capability, whatever the scores."""
    trials = [
        trial("a", 1, 0.5),
        trial("b", 1, None, message="down"),
        trial("c", 1, 0.25),
        trial("d", 1, 0.9, ending="failed"),
        trial("e", 1, 1.0),
    ]
    misses = view_of(store_run(tmp_path, trials)).misses

    assert [(miss.key.task, ending_reason(miss)) for miss in misses] == [
        ("d", "g 0.90: found 0.9"),
        ("c", "g 0.25: found 0.25"),
        ("a", "g 0.50: found 0.5"),
        ("b", "provider: down"),
    ]


def test_a_run_without_trials_has_a_view(tmp_path: Path) -> None:
    """Everything planned and nothing run, or not even planned."""
    [suite] = view_of(store_run(tmp_path, [], PLANNED)).suites

    assert (suite.total.mean, suite.total.pass_1, suite.total.not_run) == (None, None, 8)
    assert view_of(store_run(tmp_path, [])).suites == ()

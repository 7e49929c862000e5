"""Which runs count, and which buckets and tasks have passed in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_agenteval.loop.promotion import (
    SuiteHistory,
    SuiteRun,
    SuiteTask,
    buckets_of,
    counted_models,
    lapse,
    newly_broken,
    null_misses,
    standing,
    stragglers,
    suite_history,
    suite_run,
    unpromoted,
)
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.trial import Origin
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation
from pytest_agenteval.store.run_folder import RunHeader, RunModel
from pytest_agenteval.tasks.suite_spec import NOTHING_PROMOTED, Regression
from tests.reports.runs import store_run, trial

TASKS = [SuiteTask("a", "x"), SuiteTask("b", "x"), SuiteTask("c", "y")]
ENDINGS = {"+": "passed", "=": "passed", "-": "missed", "!": "errored"}


def entries(task: str, marks: str) -> Iterator[JournalEntry]:
    """Give the repetitions of a task: ``+`` passed, ``-`` missed, ``!`` errored, ``=`` taken over."""
    for repetition, mark in enumerate(marks, start=1):
        score = {"+": 1.0, "=": 1.0, "-": 0.0}.get(mark)
        key = TrialKey("s", task, "card", "claude", "", repetition)
        entry = JournalEntry(key, 1, ENDINGS[mark], score, (), TranscriptLocation("t", 0, 0))  # type: ignore[arg-type] # one of the endings
        yield replace(entry, origin=Origin("before", 1)) if mark == "=" else entry


def run(name: str, planned: int | None = None, **tasks: str) -> SuiteRun:
    """Give a run that ended all it planned, unless more is said to be ``planned``."""
    trials = tuple(entry for task, marks in tasks.items() for entry in entries(task, marks))
    return SuiteRun(name, len(trials) if planned is None else planned, trials)


def history(*runs: SuiteRun, needed: int = 2, tasks: list[SuiteTask] = TASKS) -> SuiteHistory:
    """Look back over runs, newest first."""
    return suite_history(runs, tasks, needed)


FULL = {"a": "+", "b": "+", "c": "+"}


@pytest.mark.parametrize(
    ("immature", "reason"),
    [
        (run("r", 5, **FULL), "2 of 5 planned trials never ended"),
        (run("r", **{**FULL, "c": "!"}), "1 of 3 trials errored"),
        (run("r", **{**FULL, "c": "="}), "1 of 3 trials reused from another run"),
        (run("r", a="+", b="+"), "2 of 3 tasks"),
        (run("r", 0, **FULL), "the number of planned trials is unknown"),
        (run("r", h="+"), "no task of split dev"),
    ],
)
def test_a_run_that_is_not_mature_does_not_count(immature: SuiteRun, reason: str) -> None:
    """It is passed over, with the reason; the runs before it count all the same."""
    looked_at = history(immature, run("2", **FULL), run("1", **FULL), run("0", **FULL))

    assert [(each.name, why) for each, why in looked_at.runs] == [("r", reason), ("2", ""), ("1", "")]
    assert [standing(bucket, looked_at).lacks for bucket in buckets_of(TASKS)] == ["", ""]


def test_a_task_that_no_older_run_has_is_new_and_was_not_left_out() -> None:
    """A suite that grows does not begin anew: only the bucket of the new task waits."""
    looked_at = history(run("3", **FULL), run("2", a="+", c="+"), run("1", a="+", c="+"))

    assert [each.name for each in looked_at.mature] == ["3", "2"]
    x, y = (standing(bucket, looked_at) for bucket in buckets_of(TASKS))
    assert (x.runs_in_a_row, x.lacks) == (1, "new tasks: b")
    assert (y.runs_in_a_row, y.lacks, y.trials) == (2, "", 2)


def test_older_runs_are_not_read_once_enough_are_mature() -> None:
    """Journals of hundreds of runs may lie there."""

    def runs() -> Iterator[SuiteRun]:
        yield run("2", **FULL)
        yield run("1", **FULL)
        raise AssertionError("read on")

    assert len(suite_history(runs(), TASKS, 2).runs) == 2


def test_a_miss_counts_in_every_run() -> None:
    """A part of a suite, or a run with errored trials, shows that a bucket fails as well as a whole one."""
    part = run("part", c="-")
    looked_at = history(part, run("2", **FULL), run("1", **FULL))

    x, y = (standing(bucket, looked_at) for bucket in buckets_of(TASKS))

    assert x.lacks == ""
    assert (y.runs_in_a_row, y.lacks) == (0, "1 of 3 trials missed, the newest in part")


def test_one_miss_among_repetitions_keeps_a_bucket_back() -> None:
    """All trials have to pass, of all tasks of the bucket, in each of the runs."""
    looked_at = history(run("2", **FULL), run("1", a="+++", b="++-", c="+++"))

    x, y = (standing(bucket, looked_at) for bucket in buckets_of(TASKS))

    assert (x.runs_in_a_row, x.trials, x.lacks) == (1, 2, "1 of 8 trials missed, the newest in 1")
    assert (y.runs_in_a_row, y.trials, y.lacks) == (2, 4, "")


def test_too_few_runs_promote_nothing() -> None:
    """However well they went."""
    only = standing(buckets_of(TASKS)[0], history(run("1", **FULL)))

    assert (only.runs_in_a_row, only.lacks) == (1, "too few mature runs")


def test_held_out_tasks_are_not_waited_for_and_their_misses_count() -> None:
    """Runs leave them out unless told otherwise; a bucket with one that misses would fail at once."""
    tasks = [*TASKS, SuiteTask("h", "y", is_held_out=True), SuiteTask("i", "z", is_held_out=True)]
    full = (run("2", **FULL), run("1", **FULL))

    reasons = [standing(bucket, history(*full, tasks=tasks)).lacks for bucket in buckets_of(tasks)]
    assert reasons == ["", "", "no task of split dev"]
    held_out = run("h", h="-")
    assert standing(buckets_of(tasks)[1], history(held_out, *full, tasks=tasks)).runs_in_a_row == 0


def test_passes_without_a_judge_are_counted_apart() -> None:
    """A judge could undo them."""
    unjudged = Grade("polite", None, "no judge", undecided="no_judge")
    first, *rest = run("1", **FULL).entries
    only = SuiteRun("1", 3, (replace(first, grades=(unjudged,)), *rest))

    assert standing(buckets_of(TASKS)[0], history(only, needed=1)).unproven == 1


def test_what_is_promoted_already_is_no_candidate() -> None:
    """Single tasks are asked for of the other buckets only."""
    done = Regression(buckets=("x",), tasks=("c",))

    assert [group.name for group in unpromoted(TASKS, done, single=False)] == ["y"]
    assert [group.name for group in unpromoted(TASKS, done, single=True)] == []
    assert [group.name for group in unpromoted(TASKS, NOTHING_PROMOTED, single=True)] == ["a", "b", "c"]


def test_stragglers_and_broken_tasks_are_named() -> None:
    """From 10 trials without a pass; from 3 trials that all passed before and 3 that do not now."""
    new = run("2", a="-----", b="---", c="--")
    old = run("1", a="-----", b="+++", c="+++")

    assert stragglers(TASKS, history(new, old)) == ["a"]
    assert stragglers(TASKS, history(new, replace(old, entries=old.entries[1:], planned=10))) == []
    assert newly_broken(TASKS, history(new, old)) == ["b"]


def test_a_lapse_says_how_much_missed_and_when_last() -> None:
    """Newest first, as the runs are given."""
    runs = [run("3", **FULL), run("2", a="-", b="+", c="+"), run("1", a="-", b="-", c="!")]
    x, y = buckets_of(TASKS)

    missed = lapse(x, runs)

    assert missed is not None
    assert (missed.missed, missed.trials, missed.newest) == (3, 6, "2")
    assert lapse(y, runs) is None


def test_offline_models_count_only_where_they_are_named(tmp_path: Path) -> None:
    """They are no agents that anybody ships; trials that were graded again are another run's."""
    models = (RunModel("claude", "anthropic/claude"), RunModel("oracle", "oracle", offline=True))
    header = RunHeader("2026-11-21T09:30:15+00:00", models=models)

    assert counted_models(header) == {"claude"}
    assert counted_models(header, "oracle") == {"oracle"}
    assert counted_models(header, "gpt") == set()
    assert counted_models(replace(header, regraded=("earlier",))) == set()

    stored = store_run(tmp_path, [trial("a", 1, 1.0)])
    assert suite_run(stored, "s", {"claude"}) is None
    assert suite_run(stored, "t", {"rules"}) is None
    of_rules = suite_run(stored, "s", {"rules"})
    assert of_rules is not None
    assert of_rules.models == ("rules",)


def test_what_is_promoted_fails_runs_in_which_nothing_changed() -> None:
    """By the passes in the mature runs, what other tasks show of the suite, and a run's repetitions."""
    tasks = [SuiteTask(name, "x") for name in "abcdef"]
    steady = dict.fromkeys("abcd", "++")
    runs = [run(f"r{number}", None, **steady, e="+-", f="-+") for number in range(5)]
    past = history(*runs, needed=5, tasks=tasks)

    some, all_four, with_misses, alone = (
        null_misses(set(ids), tasks, past) for ids in ("ab", "abcd", "abe", "z")
    )

    assert alone is None
    assert some is not None
    assert all_four is not None
    assert with_misses is not None
    assert (some.tasks, some.passes, all_four.tasks, with_misses.passes) == (2, 10, 4, 5)
    assert some.chance is not None
    assert all_four.chance is not None
    assert with_misses.chance is not None
    # After 10 passes of 10 a trial misses between 1 time of 100 and, by Jeffreys' prior, 1 of 22.
    assert 1 - 0.99**4 < some.chance < 1 - (10.5 / 11 * 11.5 / 12) ** 2
    assert 1 - all_four.chance == pytest.approx((1 - some.chance) ** 2)
    assert with_misses.chance > 0.5
    assert some.needed is not None
    assert some.needed > 10


def test_one_trial_of_each_task_does_not_show_how_often_it_misses() -> None:
    """No chance is made up."""
    once = null_misses({"a"}, TASKS, history(run("r", None, **FULL), needed=1))
    assert once is not None
    assert (once.passes, once.chance, once.needed) == (1, None, None)

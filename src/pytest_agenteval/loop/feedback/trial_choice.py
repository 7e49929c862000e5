"""Which trials of a bucket are looked at: the failing ones that differ most, and one that passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run

MOST_READ = 40
"""Failing trials of a bucket whose transcripts are read to choose among them."""

Failures = frozenset[tuple[str, str]]
"""What failed in a trial: each grader that was not passed, with each of its checks that failed."""


class FailingTrial(FrozenValue, frozen=True):
    """A failing trial with what failed in it."""

    trial: Trial
    failures: Failures


def failures_of(trial: Trial) -> Failures:
    """Give the graders that a trial did not pass, and their failed checks by what they claim."""
    failed = [grade for grade in trial.grades if grade.passed is False]
    checks = ((grade.grader, check.claim) for grade in failed for check in failed_checks(grade.checks))
    return frozenset((*((grade.grader, "") for grade in failed), *checks))


def distance(one: Failures, other: Failures) -> float:
    """Give how different two trials failed, from 0 to 1: Jaccard's distance of what failed in them."""
    either = one | other
    return 1 - len(one & other) / len(either) if either else 0.0


def different_trials(run: Run, entries: Iterable[JournalEntry], most: int) -> list[Trial]:
    """Give at most so many failing trials, the worst first, then always the one that differs most.

    One of another task differs more than any of a task that is there already; among equals it is the one
    whose failed graders and checks are furthest from the nearest chosen, then the worse. One that failed as
    another repetition of its task did is left out.
    """
    waiting = _readable(run, _one_of_each_task_first(entries))
    waiting.sort(key=lambda each: (each.trial.score or 0.0, each.trial.key))
    chosen: list[FailingTrial] = []
    while waiting and len(chosen) < most:
        best = max(waiting, key=lambda each: (*_difference(each, chosen), -(each.trial.score or 0.0)))
        waiting.remove(best)
        if chosen and _difference(best, chosen) == (False, 0.0):
            break
        chosen.append(best)
    return [each.trial for each in chosen]


def _difference(each: FailingTrial, chosen: Sequence[FailingTrial]) -> tuple[bool, float]:
    is_new = all(each.trial.key.task != other.trial.key.task for other in chosen)
    return is_new, min((distance(each.failures, other.failures) for other in chosen), default=1.0)


def _one_of_each_task_first(entries: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Order trials so that no task's second one comes before any task's first; each time the worst first."""
    tasks: Counter[str] = Counter()
    places = []
    for entry in sorted(entries, key=lambda entry: (entry.score or 0.0, entry.key)):
        places.append((tasks[entry.key.task], entry))
        tasks[entry.key.task] += 1
    return [entry for _, entry in sorted(places, key=lambda place: place[0])]


def _readable(run: Run, entries: Iterable[JournalEntry]) -> list[FailingTrial]:
    trials: list[FailingTrial] = []
    for entry in entries:
        trial = run.trial_if_readable(entry) if len(trials) < MOST_READ else None
        if trial is not None:
            trials.append(FailingTrial(trial, failures_of(trial)))
    return trials


def passing_trial(run: Run, entries: Iterable[JournalEntry], failing: Iterable[Trial]) -> Trial | None:
    """Give a trial that passed: of a failing one's task if there is any, in full before in part."""
    tasks = [trial.key.task for trial in failing]
    passed = [entry for entry in entries if entry.ending == "passed"]
    passed.sort(key=lambda entry: (entry.key.task not in tasks, -(entry.score or 0.0), entry.key))
    trials = (run.trial_if_readable(entry) for entry in passed[:MOST_READ])
    return next((trial for trial in trials if trial is not None), None)

"""Which trials feedback is about: of split dev, of one model and variant, failures that differ most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_agenteval.compare.pairing import BASE
from pytest_agenteval.loop.feedback.content import FeedbackOptions
from pytest_agenteval.loop.feedback.todays_tasks import TodaysTasks
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, nearest_names
from pytest_agenteval.text.formatting import one_line, pluralize, tally

MOST_NAMES = 10

MOST_READ = 40
"""Failing trials of a bucket whose transcripts are read to choose among them."""

Failures = frozenset[tuple[str, str]]
"""What failed in a trial: each grader that was not passed, with each of its checks that failed."""


class BucketTrials(FrozenValue, frozen=True):
    """A bucket's trials that count: of split dev, with a score."""

    suite: str
    name: str
    entries: tuple[JournalEntry, ...]

    @property
    def score(self) -> float:
        """The mean over tasks of each task's mean score."""
        tasks: dict[str, list[float]] = {}
        for entry in self.entries:
            tasks.setdefault(entry.key.task, []).append(entry.score or 0.0)
        return sum(sum(scores) / len(scores) for scores in tasks.values()) / len(tasks)

    @property
    def passed(self) -> int:
        """How many of the trials passed."""
        return sum(entry.ending == "passed" for entry in self.entries)

    @property
    def tasks(self) -> int:
        """Of how many tasks the trials are."""
        return len({entry.key.task for entry in self.entries})

    def failing(self, grader: str = "") -> list[JournalEntry]:
        """Give the trials that did not pass, or only those that this grader did not."""
        failed = (entry for entry in self.entries if entry.ending in ("missed", "failed"))
        return [
            entry
            for entry in failed
            if not grader or any(grade.grader == grader and grade.passed is False for grade in entry.grades)
        ]


class Selection(FrozenValue, frozen=True):
    """The buckets that feedback is about, worst first, and in words which trials are in none of them."""

    model: str
    variant: str
    buckets: tuple[BucketTrials, ...]
    errored: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def entries(self) -> list[JournalEntry]:
        """All trials that count."""
        return [entry for bucket in self.buckets for entry in bucket.entries]


def select_trials(run: Run, tasks: TodaysTasks, options: FeedbackOptions) -> Selection:
    """Choose the trials; raises UsageMistake for a name that nothing has, or that is missing."""
    suites = list(dict.fromkeys(entry.key.suite for entry in run.entries))
    if options.suite and options.suite not in suites:
        raise UsageMistake(
            f"run {run.name} has no suite {options.suite!r}; it has {nearest_names(options.suite, suites)}"
        )
    entries = [entry for entry in run.entries if options.suite in ("", entry.key.suite)]
    model = _only_name(run, "model", options.model, [entry.key.model for entry in entries])
    entries = [entry for entry in entries if entry.key.model == model]
    variants = [entry.key.variant or BASE for entry in entries]
    variant = _only_name(run, "variant", options.variant if options.variant != "" else BASE, variants)
    entries = [entry for entry in entries if (entry.key.variant or BASE) == variant]
    splits = {entry.key: tasks.split(entry) for entry in entries}
    # Whoever saw held-out trials would tune prompts to them, and nothing could be confirmed any more.
    dev = [entry for entry in entries if splits[entry.key] == "dev"]
    if not dev:
        raise UsageMistake(f"run {run.name}: no trial of split dev; {_split_counts(splits.values())}")
    every = {name for entry in dev for name in _bucket_names(entry)}
    for name in options.buckets:
        if name not in every:
            there = nearest_names(name, sorted({entry.bucket for entry in dev}))
            raise UsageMistake(f"run {run.name} has no bucket {name!r}; it has {there}")
    chosen = [
        entry
        for entry in dev
        if not options.buckets or any(name in options.buckets for name in _bucket_names(entry))
    ]
    known = {grade.grader for entry in chosen for grade in entry.grades}
    if options.grader and options.grader not in known:
        raise UsageMistake(
            f"run {run.name} has no grader {options.grader!r}; it has {nearest_names(options.grader, known)}"
        )
    unknown = [entry for entry in entries if not splits[entry.key]]
    held_out = sum(split == "held_out" for split in splits.values())
    grouped: dict[tuple[str, str], list[JournalEntry]] = {}
    for entry in chosen:
        if entry.averaged:
            grouped.setdefault((entry.key.suite, entry.bucket), []).append(entry)
    buckets = [BucketTrials(*key, tuple(of_bucket)) for key, of_bucket in grouped.items()]
    return Selection(
        model,
        "" if variant == BASE else variant,
        tuple(sorted(buckets, key=lambda bucket: (bucket.score, bucket.suite, bucket.name))),
        tuple(_errored_lines(chosen)),
        tuple(_left_out_lines(held_out, unknown, tasks.without_file(chosen))),
    )


def _errored_lines(entries: Sequence[JournalEntry]) -> list[str]:
    """Count errored trials by what broke them, and name the first: they say nothing of a prompt."""
    errored = [entry for entry in entries if entry.ending == "errored"]
    causes = Counter(entry.cause or "errored" for entry in errored)
    names = [one_line(entry.key.label, 80) for entry in errored[:MOST_NAMES]]
    more = [f"and {len(errored) - MOST_NAMES} more"] if len(errored) > MOST_NAMES else []
    return [f"{pluralize(len(errored), 'trial')} errored ({tally(causes)})", *names, *more] if errored else []


def _left_out_lines(held_out: int, unknown: Sequence[JournalEntry], without_file: int) -> list[str]:
    lines = []
    if held_out:
        lines.append(f"{pluralize(held_out, 'trial')} of split held_out: in no figure and no example here")
    if unknown:
        why = "neither the journal nor a task file of today tells the split"
        lines.append(f"{pluralize(len(unknown), 'trial')} left out: {why}")
    if without_file:
        where = "from pytest's rootdir there would be more to say"
        what = "no description and no reference solution of theirs is shown here"
        lines.append(f"{pluralize(without_file, 'task')} without a file below this folder ({where}): {what}")
    return lines


def _split_counts(splits: Iterable[str]) -> str:
    return (
        tally(Counter(split or "of a split that nobody can tell" for split in splits)) or "no trial has ended"
    )


def _only_name(run: Run, kind: str, named: str | None, names: Sequence[str]) -> str:
    known = list(dict.fromkeys(names))
    if named is None and len(known) == 1:
        return known[0]
    if named is None and known:
        raise UsageMistake(f"run {run.name} has several {kind}s: name one with --{kind}: {', '.join(known)}")
    if named is None:
        raise UsageMistake(f"run {run.name}: no trial has ended")
    if named not in known:
        raise UsageMistake(f"run {run.name} has no {kind} {named!r}; it has {nearest_names(named, known)}")
    return named


def _bucket_names(entry: JournalEntry) -> tuple[str, str]:
    return entry.bucket, f"{entry.key.suite}/{entry.bucket}"


class FailingTrial(FrozenValue, frozen=True):
    """A failing trial with what failed in it."""

    trial: Trial
    failures: Failures


def failures_of(trial: Trial) -> Failures:
    """Give the graders that a trial did not pass, and their failed checks by what they claim."""
    failed = [grade for grade in trial.grades if grade.passed is False]
    checks = ((grade.grader, check.claim) for grade in failed for check in failed_checks(grade.checks))
    return frozenset((*((grade.grader, "") for grade in failed), *checks))


def failure_distance(one: Failures, other: Failures) -> float:
    """Give how different two trials failed, from 0 to 1: Jaccard's distance of what failed in them."""
    either = one | other
    return 1 - len(one & other) / len(either) if either else 0.0


def different_trials(run: Run, entries: Iterable[JournalEntry], most: int) -> list[Trial]:
    """Give at most so many failing trials, the worst first, then always the one that differs most.

    One of another task differs more than any of a task that is there already; among equals it is the one
    whose failed graders and checks are furthest from the nearest chosen, then the worse. One that failed as
    another repetition of its task did is left out.
    """
    tasks: Counter[str] = Counter()
    places = []
    for entry in sorted(entries, key=lambda entry: (entry.score or 0.0, entry.key)):
        places.append((tasks[entry.key.task], entry))
        tasks[entry.key.task] += 1
    waiting = _readable(run, [entry for _, entry in sorted(places, key=lambda place: place[0])])
    waiting.sort(key=lambda each: (each.trial.score or 0.0, each.trial.key))
    chosen: list[FailingTrial] = []
    while waiting and len(chosen) < most:
        best = max(waiting, key=lambda each: (*_difference_from(each, chosen), -(each.trial.score or 0.0)))
        waiting.remove(best)
        # All that is left failed just as another repetition of its task did.
        if chosen and _difference_from(best, chosen) == (False, 0.0):
            break
        chosen.append(best)
    return [each.trial for each in chosen]


def _difference_from(each: FailingTrial, chosen: Sequence[FailingTrial]) -> tuple[bool, float]:
    is_new = all(each.trial.key.task != other.trial.key.task for other in chosen)
    return is_new, min((failure_distance(each.failures, other.failures) for other in chosen), default=1.0)


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

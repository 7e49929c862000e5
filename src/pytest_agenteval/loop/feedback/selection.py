"""Which trials of a run feedback is about: of split dev, of one model and variant, of the buckets named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_agenteval.compare.sides import BASE
from pytest_agenteval.loop.feedback.content import FeedbackOptions
from pytest_agenteval.loop.feedback.todays_tasks import TodaysTasks
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, nearest_names
from pytest_agenteval.text.formatting import one_line, pluralize, tally

MOST_NAMES = 10


class Bucket(FrozenValue, frozen=True):
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
        return [entry for entry in failed if not grader or _fails(entry, grader)]


def _fails(entry: JournalEntry, grader: str) -> bool:
    return any(grade.grader == grader and grade.passed is False for grade in entry.grades)


class Selection(FrozenValue, frozen=True):
    """The buckets that feedback is about, worst first, and in words which trials are in none of them."""

    model: str
    variant: str
    buckets: tuple[Bucket, ...]
    errored: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def entries(self) -> list[JournalEntry]:
        """All trials that count."""
        return [entry for bucket in self.buckets for entry in bucket.entries]


def select(run: Run, tasks: TodaysTasks, options: FeedbackOptions) -> Selection:
    """Choose the trials; raises UsageMistake for a name that nothing has, or that is missing."""
    entries = _of_suite(run, options.suite)
    model = _one(run, "model", options.model, [entry.key.model for entry in entries])
    entries = [entry for entry in entries if entry.key.model == model]
    variants = [entry.key.variant or BASE for entry in entries]
    variant = _one(run, "variant", options.variant if options.variant != "" else BASE, variants)
    entries = [entry for entry in entries if (entry.key.variant or BASE) == variant]
    splits = {entry.key: tasks.split(entry) for entry in entries}
    dev = [entry for entry in entries if splits[entry.key] == "dev"]
    if not dev:
        raise UsageMistake(f"run {run.name}: no trial of split dev; {_whereabouts(splits.values())}")
    chosen = _of_buckets(run, dev, options.buckets)
    _check_grader(run, chosen, options.grader)
    unknown = [entry for entry in entries if not splits[entry.key]]
    held_out = sum(split == "held_out" for split in splits.values())
    return Selection(
        model,
        "" if variant == BASE else variant,
        tuple(_buckets(chosen)),
        tuple(_errored(chosen)),
        tuple(_left_out(held_out, unknown, tasks.without_file(chosen))),
    )


def _whereabouts(splits: Iterable[str]) -> str:
    return (
        tally(Counter(split or "of a split that nobody can tell" for split in splits)) or "no trial has ended"
    )


def _of_suite(run: Run, suite: str) -> list[JournalEntry]:
    suites = list(dict.fromkeys(entry.key.suite for entry in run.entries))
    if suite and suite not in suites:
        raise UsageMistake(f"run {run.name} has no suite {suite!r}; it has {nearest_names(suite, suites)}")
    return [entry for entry in run.entries if suite in ("", entry.key.suite)]


def _one(run: Run, kind: str, named: str | None, names: Sequence[str]) -> str:
    """Give the model or variant that is meant: the one named, or else the only one."""
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


def _of_buckets(run: Run, entries: list[JournalEntry], names: Sequence[str]) -> list[JournalEntry]:
    """Give the trials of these buckets, each named with its suite or without; of all where none is named."""
    known = {name for entry in entries for name in _bucket_names(entry)}
    for name in names:
        if name not in known:
            there = nearest_names(name, sorted({entry.bucket for entry in entries}))
            raise UsageMistake(f"run {run.name} has no bucket {name!r}; it has {there}")
    return [entry for entry in entries if not names or _is_named(entry, names)]


def _bucket_names(entry: JournalEntry) -> tuple[str, str]:
    return entry.bucket, f"{entry.key.suite}/{entry.bucket}"


def _is_named(entry: JournalEntry, names: Sequence[str]) -> bool:
    return any(name in names for name in _bucket_names(entry))


def _check_grader(run: Run, entries: Iterable[JournalEntry], grader: str) -> None:
    known = {grade.grader for entry in entries for grade in entry.grades}
    if grader and grader not in known:
        raise UsageMistake(f"run {run.name} has no grader {grader!r}; it has {nearest_names(grader, known)}")


def _buckets(entries: Iterable[JournalEntry]) -> list[Bucket]:
    """Put the trials that have a score into their buckets, the worst first."""
    grouped: dict[tuple[str, str], list[JournalEntry]] = {}
    for entry in entries:
        if entry.averaged:
            grouped.setdefault((entry.key.suite, entry.bucket), []).append(entry)
    buckets = [Bucket(*key, tuple(of_bucket)) for key, of_bucket in grouped.items()]
    return sorted(buckets, key=lambda bucket: (bucket.score, bucket.suite, bucket.name))


def _errored(entries: Sequence[JournalEntry]) -> list[str]:
    """Count errored trials by what broke them, and name the first: they say nothing of a prompt."""
    errored = [entry for entry in entries if entry.ending == "errored"]
    causes = Counter(entry.cause or "errored" for entry in errored)
    names = [one_line(entry.key.label, 80) for entry in errored[:MOST_NAMES]]
    more = [f"and {len(errored) - MOST_NAMES} more"] if len(errored) > MOST_NAMES else []
    return [f"{pluralize(len(errored), 'trial')} errored ({tally(causes)})", *names, *more] if errored else []


def _left_out(held_out: int, unknown: Sequence[JournalEntry], without_file: int) -> list[str]:
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

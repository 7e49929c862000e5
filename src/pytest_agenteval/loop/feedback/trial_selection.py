"""Which trials feedback is made of, and what today's files say of their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.compare.pairing import BASE
from pytest_agenteval.loop.contamination import prompt_leaks
from pytest_agenteval.loop.feedback.content import EarlierRound, FeedbackOptions
from pytest_agenteval.loop.todays_tasks import SuiteWithTasks, TodaysTasks
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.task_spec import Task
from pytest_agenteval.text.errors import UsageMistake, nearest_names
from pytest_agenteval.text.formatting import first_few, one_line, pluralize, tally

# A text of a held-out task reveals that task if it has this many characters; shorter ones are common words.
SHORTEST_TEXT = 12

ROUND_TEXTS = ("summary", "decision", "diff", "sentence")
HIDDEN = "(a line that quotes a held-out task)"


def hide_held_out(rounds: Sequence[EarlierRound], tasks: TodaysTasks) -> tuple[EarlierRound, ...]:
    """Replace each line that has a line of a held-out task, or that ``leaks`` would report for one."""
    if not rounds:
        return ()
    known = _held_out_lines(tasks.suites)
    clean = {
        f"{at}/{name}": [
            HIDDEN if any(line in own for line in known) else own for own in getattr(each, name).split("\n")
        ]
        for at, each in enumerate(rounds)
        for name in ROUND_TEXTS
    }
    found = True
    # Until nothing is found: a leak over two lines is reported at the first, and hiding that may leave
    # another.
    while found:
        leaks = prompt_leaks({}, {name: "\n".join(lines) for name, lines in clean.items()}, tasks.suites)
        found = False
        for leak in leaks:
            if leak.split == "held_out" and clean[leak.file][leak.line - 1] != HIDDEN:
                clean[leak.file][leak.line - 1], found = HIDDEN, True
    return tuple(
        replace(each, **{name: "\n".join(clean[f"{at}/{name}"]) for name in ROUND_TEXTS})
        for at, each in enumerate(rounds)
    )


def _held_out_lines(suites: Iterable[SuiteWithTasks]) -> frozenset[str]:
    """Give the ids and longer lines of held-out tasks that no task of split dev has."""
    held_out, dev = set[str](), set[str]()
    trees: dict[Path, bool] = {}
    for of in suites:
        for loaded, layers in zip(of.tasks, of.layers, strict=True):
            is_held_out = loaded.task.split == "held_out"
            (held_out if is_held_out else dev).update((loaded.task.id, *_quotable_lines(loaded.task)))
            for layer in layers:
                trees[layer] = trees.get(layer, True) and is_held_out
    # A tree that dev tasks start from as well gives nothing away.
    held_out.update(text for tree, only in trees.items() if only for text in _lines_below(tree))
    return frozenset(held_out - dev)


def _lines_below(folder: Path) -> Iterator[str]:
    for file in sorted(folder.rglob("*")):
        with suppress(OSError, UnicodeDecodeError):
            if file.is_file():
                yield from _quotable_lines(file.read_text(encoding="utf-8"))


def _quotable_lines(value: object) -> Iterator[str]:
    """Give the longer lines of everything in a task that somebody could quote."""
    if isinstance(value, Task):
        configs = [grader.config for grader in value.graders]
        solution = value.reference_solution.turns if value.reference_solution else ()
        value = [value.description, value.input_map, configs]
        value += [part for turn in solution for part in (turn.text, [call.args for call in turn.calls])]
    if isinstance(value, str):
        yield from (text for line in value.splitlines() if len(text := line.strip()) >= SHORTEST_TEXT)
    elif isinstance(value, Mapping | list | tuple):
        parts = value.values() if isinstance(value, Mapping) else value
        yield from (text for part in parts for text in _quotable_lines(part))


MOST_NAMES = 10

# How many failing trials of a bucket are read to choose among them.
MOST_READ = 40

# The graders of a trial that did not pass, each with its failed checks.
Failures = frozenset[tuple[str, str]]


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
        return sum(entry.ending == "passed" for entry in self.entries)

    @property
    def tasks(self) -> int:
        """The number of tasks of these trials."""
        return len({entry.key.task for entry in self.entries})

    def failing(self, grader: str = "") -> list[JournalEntry]:
        """Give the trials that did not pass, or only those that did not pass this grader."""
        failed = (entry for entry in self.entries if entry.ending in ("missed", "failed"))
        return [
            entry
            for entry in failed
            if not grader or any(grade.grader == grader and grade.passed is False for grade in entry.grades)
        ]


def worst_first(entries: Iterable[JournalEntry]) -> tuple[BucketTrials, ...]:
    """Group trials by their buckets, the one with the lowest score first; by name where scores are equal."""
    grouped: dict[tuple[str, str], list[JournalEntry]] = {}
    for entry in entries:
        # Errored trials are no fault of a prompt: they are in no figure and in no example.
        if entry.averaged:
            grouped.setdefault((entry.key.suite, entry.bucket), []).append(entry)
    buckets = [BucketTrials(*key, tuple(of_bucket)) for key, of_bucket in grouped.items()]
    return tuple(sorted(buckets, key=lambda bucket: (bucket.score, bucket.suite, bucket.name)))


class Selection(FrozenValue, frozen=True):
    """The buckets that feedback is about, worst first, and in words which trials are in none of them."""

    model: str
    variant: str
    buckets: tuple[BucketTrials, ...]
    errored: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def entries(self) -> list[JournalEntry]:
        return [entry for bucket in self.buckets for entry in bucket.entries]


def select_trials(run: Run, tasks: TodaysTasks, options: FeedbackOptions) -> Selection:
    """Choose the trials; raises UsageMistake for a name that nothing has, or that is missing."""
    suites = list(dict.fromkeys(entry.key.suite for entry in run.entries))
    if options.suite and options.suite not in suites:
        there = nearest_names(options.suite, suites)
        raise UsageMistake(f"run {run.name} has no suite {options.suite!r}; it has {there}")
    entries = [entry for entry in run.entries if options.suite in ("", entry.key.suite)]
    model = _only_name(run, "model", options.model, [entry.key.model for entry in entries])
    entries = [entry for entry in entries if entry.key.model == model]
    variants = [entry.key.variant or BASE for entry in entries]
    variant = _only_name(run, "variant", options.variant if options.variant != "" else BASE, variants)
    entries = [entry for entry in entries if (entry.key.variant or BASE) == variant]
    splits = {entry.key: tasks.split(entry) for entry in entries}
    # Whoever sees held-out trials tunes prompts to them, and then they can confirm nothing any more.
    dev = [entry for entry in entries if splits[entry.key] == "dev"]
    if not dev:
        counts = Counter(split or "of an unknown split" for split in splits.values())
        why = tally(counts) or "no trial has ended"
        raise UsageMistake(f"run {run.name}: no trial of split dev; {why}")
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
        there = nearest_names(options.grader, known)
        raise UsageMistake(f"run {run.name} has no grader {options.grader!r}; it has {there}")
    unknown = [entry for entry in entries if not splits[entry.key]]
    held_out = sum(split == "held_out" for split in splits.values())
    return Selection(
        model,
        "" if variant == BASE else variant,
        worst_first(chosen),
        tuple(_errored_lines(chosen)),
        tuple(_left_out_lines(held_out, unknown, tasks.without_file(chosen))),
    )


def _errored_lines(entries: Sequence[JournalEntry]) -> list[str]:
    errored = [entry for entry in entries if entry.ending == "errored"]
    causes = Counter(entry.cause or "errored" for entry in errored)
    names = first_few([one_line(entry.key.label, 80) for entry in errored], MOST_NAMES)
    return [f"{pluralize(len(errored), 'trial')} errored ({tally(causes)})", *names] if errored else []


def _left_out_lines(held_out: int, unknown: Sequence[JournalEntry], without_file: int) -> list[str]:
    lines = []
    if held_out:
        lines.append(f"{pluralize(held_out, 'trial')} of split held_out: in no figure and no example here")
    if unknown:
        why = "neither the journal nor a task file names their split"
        lines.append(f"{pluralize(len(unknown), 'trial')} left out: {why}")
    if without_file:
        where = "run this in pytest's rootdir for more"
        what = "their descriptions and reference solutions are missing here"
        lines.append(f"{pluralize(without_file, 'task')} without a file below this folder ({where}): {what}")
    return lines


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


def failure_distance(one: Failures, other: Failures) -> float:
    """Give how differently two trials failed, from 0 to 1: Jaccard's distance of their failures."""
    either = one | other
    return 1 - len(one & other) / len(either) if either else 0.0


def different_trials(run: Run, entries: Iterable[JournalEntry], most: int) -> list[Trial]:
    """Give at most ``most`` failing trials: the worst one first, then always the one that differs most.

    All trials that a person has commented come before, in the same order, however many they are. A trial of
    another task differs more than any of a task that is already chosen. Among equals it is the one whose
    failed graders and checks are furthest from the nearest chosen, then the one with the lower score. A trial
    that failed exactly as another repetition of its task is left out.
    """
    entries = list(entries)
    commented = {entry.key for entry in entries if entry.note.comment}
    tasks: Counter[str] = Counter()
    places = []
    # Only the first ones are read: so no task's second trial stands before any task's first, each time the
    # worst first.
    for entry in sorted(entries, key=lambda entry: (entry.score or 0.0, entry.key)):
        places.append((entry.key not in commented, tasks[entry.key.task], entry))
        tasks[entry.key.task] += 1
    waiting = _readable(run, [entry for *_, entry in sorted(places, key=lambda place: place[:2])])
    waiting.sort(key=lambda each: (each[0].score or 0.0, each[0].key))
    chosen: list[tuple[Trial, Failures]] = []

    def rank(each: tuple[Trial, Failures]) -> tuple[bool, bool, float, float]:
        return each[0].key in commented, *_difference_from(each, chosen), -(each[0].score or 0.0)

    while waiting and len(chosen) < max(most, len(commented)):
        best = max(waiting, key=rank)
        waiting.remove(best)
        # All that is left failed just as another repetition of its task did.
        if chosen and rank(best)[:3] == (False, False, 0.0):
            break
        chosen.append(best)
    return [trial for trial, _ in chosen]


def _difference_from(
    each: tuple[Trial, Failures], chosen: Sequence[tuple[Trial, Failures]]
) -> tuple[bool, float]:
    own, failures = each
    is_new = all(own.key.task != other.key.task for other, _ in chosen)
    return is_new, min((failure_distance(failures, others) for _, others in chosen), default=1.0)


def _readable(run: Run, entries: Iterable[JournalEntry]) -> list[tuple[Trial, Failures]]:
    trials: list[tuple[Trial, Failures]] = []
    for entry in entries:
        trial = run.trial_if_readable(entry) if len(trials) < MOST_READ else None
        if trial is not None:
            failures: set[tuple[str, str]] = set()
            for grade in trial.grades:
                if grade.passed is False:
                    claims = ("", *(check.claim for check in failed_checks(grade.checks)))
                    failures.update((grade.grader, claim) for claim in claims)
            trials.append((trial, frozenset(failures)))
    return trials


def passing_trial(run: Run, entries: Iterable[JournalEntry], failing: Iterable[Trial]) -> Trial | None:
    """Give a trial that passed: of a task of the failing ones if there is any, higher scores first."""
    tasks = [trial.key.task for trial in failing]
    passed = [entry for entry in entries if entry.ending == "passed"]
    passed.sort(key=lambda entry: (entry.key.task not in tasks, -(entry.score or 0.0), entry.key))
    # A transcript may be lost; the next one is as good.
    trials = (run.trial_if_readable(entry) for entry in passed[:MOST_READ])
    return next((trial for trial in trials if trial is not None), None)

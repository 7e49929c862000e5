"""Which trials feedback is made of, and what today's files say of their tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec.structs import replace

from pytest_agenteval.compare.pairing import BASE
from pytest_agenteval.loop.contamination import Leak, SuiteWithTasks, read_suites, suite_leaks
from pytest_agenteval.loop.feedback.content import EarlierRound, FeedbackOptions
from pytest_agenteval.records.explanation import failed_checks
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.planning.suites import Suites
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.tasks.load import LoadedTask, load_suite, load_tasks
from pytest_agenteval.tasks.referenced_files import data_files, prompt_files, workspace_layers
from pytest_agenteval.tasks.suite_spec import Suite, resolve_settings
from pytest_agenteval.tasks.task_spec import Task, Turn
from pytest_agenteval.text.errors import AgentEvalError, ProblemsFound, UsageMistake, nearest_names
from pytest_agenteval.text.formatting import one_line, pluralize, tally

# A text of a held-out task reveals that task if it has this many characters; shorter ones are common words.
SHORTEST_TEXT = 12

# A text among an agent's settings counts as an instruction if it has this many characters.
SHORTEST_INSTRUCTION = 60

ROUND_TEXTS = ("summary", "decision", "diff", "sentence")
HIDDEN = "(a line that quotes a held-out task)"


class _SuiteFolder(FrozenValue, frozen=True):
    """A suite of today: what its file says, and its tasks."""

    suite: Suite
    file: Path
    tasks: tuple[LoadedTask, ...]


class TodaysTasks:
    """The files of today of the suites of a run, by the names that the run has for them.

    A file that is missing or has problems is passed over: feedback is about trials of the past.
    """

    def __init__(self, run: Run, root: Path | None) -> None:
        # A run names files from pytest's rootdir; feedback may be started below it, or from elsewhere.
        roots = [root] if root else [Path.cwd(), *run.folder.resolve().parents]
        files = {entry.file for entry in run.entries if entry.file}
        self._root = next((at for at in roots if any((at / file).is_file() for file in files)), roots[0])
        self._suites = tuple(self._folders(self._root / file for file in sorted(files)))
        every = ((of, loaded) for of in self._suites for loaded in of.tasks)
        self._tasks = {(of.suite.name, loaded.task.id): (loaded, of) for of, loaded in every}

    def _folders(self, files: Iterable[Path]) -> Iterator[_SuiteFolder]:
        suites, seen = Suites(self._root), set[Path]()
        for path in files:
            file = suites.file_of(path.parent)
            if file is None or file in seen:
                continue
            seen.add(file)
            try:
                suite = load_suite(file)
            except ProblemsFound:
                continue
            yield _SuiteFolder(suite, file, tuple(_tasks_below(suites, file, suite)))

    @property
    def suite_folders(self) -> list[Path]:
        return [each.file.parent for each in self._suites]

    def task(self, entry: JournalEntry) -> Task | None:
        """Give a trial's task as its file has it today; None where there is none."""
        return self.task_named(entry.key.suite, entry.key.task)

    def task_named(self, suite: str, task: str) -> Task | None:
        place = self._tasks.get((suite, task))
        return place[0].task if place else None

    def without_file(self, entries: Iterable[JournalEntry]) -> int:
        """Count the tasks that a file had when they were tried, and none has today."""
        return len({entry.key[:2] for entry in entries if entry.file and self.task(entry) is None})

    def split(self, entry: JournalEntry) -> str:
        """Give the split of a trial: ``dev``, ``held_out``, or empty where it is not known."""
        task = self.task(entry)
        # Held out is whatever either the journal or today's file calls held out.
        splits = {entry.split, task.split if task else None}
        return next((split for split in ("held_out", "dev") if split in splits), "")

    def prompt_files(self, entry: JournalEntry) -> Mapping[str, Path]:
        place = self._tasks.get((entry.key.suite, entry.key.task))
        if place is None:
            return {}
        loaded, of = place
        try:
            return prompt_files(loaded.task, of.suite, of.file.parent, loaded.file, self._root)
        except ProblemsFound:
            return {}

    def instructions(self, entry: JournalEntry) -> Mapping[str, tuple[Path, str]]:
        """Give the long texts among a trial's settings: where each stands, and the text."""
        place = self._tasks.get((entry.key.suite, entry.key.task))
        if place is None:
            return {}
        loaded, of = place
        settings = resolve_settings(loaded.task, of.suite).settings
        texts = {name: text for name, text in settings.items() if isinstance(text, str)}
        return {
            f"settings.{name}": (loaded.file if name in loaded.task.settings else of.file, text)
            for name, text in texts.items()
            if len(text) >= SHORTEST_INSTRUCTION
        }

    @cached_property
    def held_out_texts(self) -> frozenset[str]:
        """Lines of held-out tasks that no task of split dev has: ids, inputs, expected values."""
        held_out, dev = set[str](), set[str]()
        trees: dict[Path, bool] = {}
        for loaded, of in self._tasks.values():
            is_held_out = loaded.task.split == "held_out"
            (held_out if is_held_out else dev).update((loaded.task.id, *_texts_of(loaded.task)))
            with suppress(ProblemsFound):
                for layer in workspace_layers(loaded.task, of.file.parent, loaded.file, self._root):
                    trees[layer] = trees.get(layer, True) and is_held_out
        # A tree that dev tasks start from as well gives nothing away.
        held_out.update(text for tree, only in trees.items() if only for text in _texts_below(tree))
        return frozenset(held_out - dev)


def _tasks_below(suites: Suites, file: Path, suite: Suite) -> Iterator[LoadedTask]:
    files = [*sorted(data_files(file.parent)), *([file] if suite.tasks else [])]
    for path in files:
        if suites.may_hold_tasks(path) and suites.file_of(path.parent) == file:
            try:
                yield from load_tasks(path, suite, file.parent)
            except ProblemsFound:
                continue


def _texts_below(folder: Path) -> Iterator[str]:
    """Give the longer lines of the files of a starting workspace."""
    for file in sorted(folder.rglob("*")):
        try:
            yield from _texts_of(file.read_text(encoding="utf-8")) if file.is_file() else ()
        except (OSError, UnicodeDecodeError):
            continue


def _texts_of(value: object) -> Iterator[str]:
    """Give the longer lines of everything in a task that somebody could quote."""
    if isinstance(value, Task):
        configs = [grader.config for grader in value.graders]
        solution = value.reference_solution.turns if value.reference_solution else ()
        yield from _texts_of([value.description, value.input, solution, configs])
    elif isinstance(value, str):
        yield from (text for line in value.splitlines() if len(text := line.strip()) >= SHORTEST_TEXT)
    elif isinstance(value, Mapping):
        yield from (text for part in value.values() for text in _texts_of(part))
    elif isinstance(value, list | tuple):
        yield from (text for part in value for text in _texts_of(part))
    elif isinstance(value, Turn):
        yield from _texts_of([value.text, [call.args for call in value.calls]])


def hide_held_out(rounds: Sequence[EarlierRound], tasks: TodaysTasks) -> tuple[EarlierRound, ...]:
    """Replace each line that has a line of a held-out task, or that ``leaks`` would report for one."""
    if not rounds:
        return ()
    suites: list[SuiteWithTasks] = []
    for folder in tasks.suite_folders:
        with suppress(AgentEvalError):  # a suite with problems: its lines are known all the same
            suites += read_suites(folder)
    clean = {
        f"{at}/{name}": _hide_lines(getattr(each, name), tasks.held_out_texts)
        for at, each in enumerate(rounds)
        for name in ROUND_TEXTS
    }
    # Until nothing is found: a leak over two lines is reported at the first, and hiding that may leave
    # another.
    while leaks := _held_out_leaks(clean, suites):
        for leak in leaks:
            lines = clean[leak.file].split("\n")
            lines[leak.line - 1] = HIDDEN
            clean[leak.file] = "\n".join(lines)
    return tuple(
        replace(each, **{name: clean[f"{at}/{name}"] for name in ROUND_TEXTS})
        for at, each in enumerate(rounds)
    )


def _hide_lines(text: str, lines: frozenset[str]) -> str:
    if not any(line in text for line in lines):
        return text
    return "\n".join(HIDDEN if any(line in own for line in lines) else own for own in text.splitlines())


def _held_out_leaks(texts: Mapping[str, str], suites: Sequence[SuiteWithTasks]) -> list[Leak]:
    """Give the leaks of held-out tasks; a line that is hidden already quotes nothing."""
    leaks = suite_leaks({}, texts, suites)
    return [leak for leak in leaks if leak.split == "held_out" and leak.text != HIDDEN]


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
        counts = Counter(split or "of a split that nobody can tell" for split in splits.values())
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
    grouped: dict[tuple[str, str], list[JournalEntry]] = {}
    for entry in chosen:
        # Errored trials are no fault of a prompt: they are in no figure and in no example.
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


def failure_distance(one: Failures, other: Failures) -> float:
    """Give how differently two trials failed, from 0 to 1: Jaccard's distance of their failures."""
    either = one | other
    return 1 - len(one & other) / len(either) if either else 0.0


def different_trials(run: Run, entries: Iterable[JournalEntry], most: int) -> list[Trial]:
    """Give at most ``most`` failing trials: the worst one first, then always the one that differs most.

    A trial of another task differs more than any of a task that is already chosen. Among equals it is the one
    whose failed graders and checks are furthest from the nearest chosen, then the one with the lower score. A
    trial that failed exactly as another repetition of its task is left out.
    """
    tasks: Counter[str] = Counter()
    places = []
    # Only the first ones are read: so no task's second trial stands before any task's first, each time the
    # worst first.
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
            failures: set[tuple[str, str]] = set()
            for grade in trial.grades:
                if grade.passed is False:
                    claims = ("", *(check.claim for check in failed_checks(grade.checks)))
                    failures.update((grade.grader, claim) for claim in claims)
            trials.append(FailingTrial(trial, frozenset(failures)))
    return trials


def passing_trial(run: Run, entries: Iterable[JournalEntry], failing: Iterable[Trial]) -> Trial | None:
    """Give a trial that passed: of a task of the failing ones if there is any, higher scores first."""
    tasks = [trial.key.task for trial in failing]
    passed = [entry for entry in entries if entry.ending == "passed"]
    passed.sort(key=lambda entry: (entry.key.task not in tasks, -(entry.score or 0.0), entry.key))
    # A transcript may be lost; the next one is as good.
    trials = (run.trial_if_readable(entry) for entry in passed[:MOST_READ])
    return next((trial for trial in trials if trial is not None), None)

"""A suite over its last runs: one series for each model and variant, and what changed between two runs.

A series is for looking, not for verdicts: whether one run is better than another says ``agenteval compare``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_agenteval.compare.scoring.aggregates import pass_hat_k
from pytest_agenteval.records.record import Document, Record
from pytest_agenteval.reports.trend.samples import CHANGES, Sample, samples_of
from pytest_agenteval.reports.trend.suspects import Suspects, suspects_among
from pytest_agenteval.reports.view import chose_by_itself
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.store.runs import RunFolder
from pytest_agenteval.text.canonical import digest
from pytest_agenteval.text.formatting import pluralize

INCOMPARABLE = frozenset({"graders", "tasks"})
"""Where these changed, scores before and after do not measure the same."""

DIGITS = 4
LEAST_SHARE = 0.5
"""The share of the tasks, and of the planned trials, that a run must have tried to be part of a series."""


class Change(Record, frozen=True):
    """What changed since the run before: in how many of the tasks that both tried, and from what to what.

    ``before`` and ``after`` are the first digits of the digests of these tasks, all of them together.
    """

    what: str
    tasks: int
    before: str
    after: str

    @property
    def comparable(self) -> bool:
        """Whether scores before and after measure the same."""
        return self.what not in INCOMPARABLE


class Figures(Record, frozen=True):
    """The mean score and pass^k of a bucket or of all tasks, 0 to 1; None where nothing can be told."""

    score: float | None
    pass_hat_k: float | None


class Point(Record, frozen=True):
    """One run in a series. ``incomplete`` says in words what of the suite it did not try."""

    run: str
    started_at: str
    total: Figures
    buckets: Mapping[str, Figures]
    changes: tuple[Change, ...] = ()
    incomplete: str = ""


class Absence(Record, frozen=True):
    """A run that is left out of a series, and why."""

    run: str
    why: str


class Series(Record, frozen=True):
    """A suite with one model and variant, from the oldest run to the newest; ``k`` is that of pass^k."""

    model: str
    variant: str
    note: str
    k: int
    points: tuple[Point, ...]
    left_out: tuple[Absence, ...] = ()


class Trend(Record, frozen=True):
    """A suite over so many runs, oldest first, and the tasks that they make suspect.

    ``regraded`` are runs in between that graded trials of others again: no agent was tried, and none of
    their trials is counted a second time. ``odd`` says what of the runs could not be read.
    """

    suite: str
    runs: tuple[str, ...]
    series: tuple[Series, ...]
    suspects: Suspects
    regraded: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


class TrendDocument(Document, frozen=True, kw_only=True):
    """Suites over their last runs, in the order in which they were first run."""

    suites: tuple[Trend, ...]


def suite_names(folders: Iterable[RunFolder]) -> list[str]:
    """Give the suites of these runs, in order of appearance."""
    return list(dict.fromkeys(suite.name for folder in folders for suite in folder.header.suites))


def last_runs(
    folders: Sequence[RunFolder], suite: str, last: int, models: Sequence[str] = ()
) -> list[RunFolder]:
    """Give the last runs of a suite, oldest first, with those in between that graded trials of others again.

    ``folders`` come newest first. Of ``last`` runs only those count that tried agents.
    """
    chosen: list[RunFolder] = []
    tried = 0
    for folder in folders:
        if tried == last:
            break
        if _has(folder, suite, models):
            chosen.append(folder)
            tried += not folder.header.regraded
    return chosen[::-1]


def _has(folder: RunFolder, suite: str, models: Sequence[str]) -> bool:
    header = folder.header
    of_model = not models or any(model.name in models for model in header.models)
    return of_model and any(of_run.name == suite for of_run in header.suites)


def trend_of(
    folders: Sequence[RunFolder], suite: str, models: Sequence[str] = (), variants: Sequence[str] = ()
) -> Trend:
    """Read these runs of a suite, oldest first, and put them into series; no two are in memory at once."""
    samples: list[Sample] = []
    odd: list[str] = []
    for folder in folders:
        if not folder.header.regraded:
            run = load_run(folder.path)
            samples += samples_of(run, suite, models, variants)
            odd += [f"{run.folder.name}: {line}" for line in run.odd]
    return Trend(
        suite=suite,
        runs=tuple(dict.fromkeys(sample.run for sample in samples)),
        series=tuple(_all_series(samples)),
        suspects=suspects_among(_to_work_with(samples)),
        regraded=tuple(folder.path.name for folder in folders if folder.header.regraded),
        odd=tuple(odd),
    )


def _all_series(samples: Sequence[Sample]) -> Iterator[Series]:
    tasks = _most_tasks(_to_work_with(samples))
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.model.name, sample.variant), []).append(sample)
    for (model, variant), group in groups.items():
        absences = [(sample, why) for sample in group if (why := _too_little(sample, tasks))]
        absent = {sample.run for sample, _ in absences}
        present = [sample for sample in group if sample.run not in absent]
        k = min((sample.k for sample in present), default=1)
        yield Series(
            model=model,
            variant=variant,
            note=_note(group, model),
            k=k,
            points=tuple(_points(present, tasks, k)),
            left_out=tuple(Absence(sample.run, why) for sample, why in absences),
        )


def _note(samples: Sequence[Sample], model: str) -> str:
    """Say what an offline model does, or which models an agent asked that chose by itself."""
    own = list(dict.fromkeys(name for sample in samples for name in sample.own_models))
    return ", ".join(own) if chose_by_itself(model, own) else samples[-1].note


def _to_work_with(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Leave out those of held-out tasks, unless there are no others."""
    return [sample for sample in samples if not sample.held_out] or samples


def _most_tasks(samples: Sequence[Sample]) -> set[str]:
    """Give the tasks of the sample that has most, of several the newest: no run knows of the whole suite."""
    return max((set(sample.tasks) for sample in reversed(samples)), key=len, default=set())


def _too_little(sample: Sample, tasks: set[str]) -> str:
    """Say why a sample tells too little of a suite to be part of its series; empty where it does not."""
    tried, averaged = len(sample.tried & tasks), sum(tally.averaged for tally in sample.tasks.values())
    if sample.held_out and not tasks & set(sample.tasks):
        return "held-out tasks only"
    if tried < LEAST_SHARE * len(tasks):
        return f"{tried} of {pluralize(len(tasks), 'task')} graded"
    if averaged < LEAST_SHARE * sample.planned:
        return f"{averaged} of {pluralize(sample.planned, 'trial')} graded"
    return ""


def _incomplete(sample: Sample, tasks: set[str]) -> str:
    """Say what a sample has not of the suite: tasks that others tried, and trials without a grade."""
    finished = sum(tally.trials for tally in sample.tasks.values())
    errored = finished - sum(tally.averaged for tally in sample.tasks.values())
    tried, not_run = len(tasks & set(sample.tasks)), sample.planned - finished
    parts = [
        f"{tried} of {pluralize(len(tasks), 'task')}" if tried < len(tasks) else "",
        f"{errored} of {pluralize(sample.planned, 'trial')} errored" if errored else "",
        f"{not_run} of {pluralize(sample.planned, 'trial')} not run" if not_run else "",
    ]
    return ", ".join(filter(None, parts))


def _points(samples: Sequence[Sample], tasks: set[str], k: int) -> Iterator[Point]:
    for number, sample in enumerate(samples):
        yield Point(
            run=sample.run,
            started_at=sample.started_at,
            total=Figures(sample.score, _pass_hat_k(sample, k)),
            buckets={
                bucket: Figures(score, _pass_hat_k(sample, k, bucket))
                for bucket, score in sample.buckets.items()
            },
            changes=tuple(changes_between(samples[number - 1], sample)) if number else (),
            incomplete=_incomplete(sample, tasks),
        )


def _pass_hat_k(sample: Sample, k: int, bucket: str | None = None) -> float | None:
    """Give the mean over those tasks that have ``k`` averaged trials; None where there is none."""
    rates = [
        pass_hat_k(tally.averaged, tally.passed, k)
        for tally in sample.tasks.values()
        if tally.averaged >= k and bucket in (None, tally.bucket)
    ]
    return sum(rates) / len(rates) if rates else None


def changes_between(before: Sample, after: Sample) -> Iterator[Change]:
    """Say what of the tasks that both tried is not as it was, what spoils the comparison first."""
    for what, names in CHANGES.items():
        old, new = _together(before, names), _together(after, names)
        both = sorted(old.keys() & new.keys())
        changed = sum(old[task] != new[task] for task in both)
        if changed:
            yield Change(what, changed, *_in_short(_of_all(old, both), _of_all(new, both)))


def _together(sample: Sample, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Give the digests of each task by which something is known; a task without any is left out."""
    digests = {task: tuple(sample.digests[name].get(task, "") for name in names) for task in sample.tasks}
    return {task: each for task, each in digests.items() if any(each)}


def _of_all(digests: Mapping[str, tuple[str, ...]], tasks: Sequence[str]) -> str:
    """Give the digest that the tasks have in common, else one of all of theirs."""
    distinct = {digests[task] for task in tasks}
    if len(distinct) == 1 and len(only := distinct.pop()) == 1:
        return only[0]
    return digest([[task, *digests[task]] for task in tasks])


def _in_short(before: str, after: str) -> tuple[str, str]:
    """Give the first digits of two digests, as many as tell them apart."""
    digits = DIGITS
    while before[:digits] == after[:digits] and digits < max(len(before), len(after)):
        digits += 1
    return before[:digits], after[:digits]

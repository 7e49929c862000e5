"""Tasks that many runs make suspect: missed by all, passed by all, or judged now so and now so.

Only trials that were graded count; errored ones say nothing of a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from pytest_agenteval.records.record import Record
from pytest_agenteval.reports.trend.samples import Sample, TaskTally

BY_CHANCE = 0.05
"""The chance that any task is named as missed by all, or as passed by all, if each passes half the time."""

ORACLE = "oracle"


class Suspect(Record, frozen=True):
    """A task, and the counts that make it suspect: ``part`` of ``whole``, in so many runs, with these models.

    ``remark`` says in words what else is known.
    """

    task: str
    part: int
    whole: int
    runs: int
    models: tuple[str, ...]
    remark: str = ""


class Suspects(Record, frozen=True):
    """Tasks that runs make suspect, the most suspect first.

    ``missed``: no trial of a real model passed, nor one of ``oracle``; passes of ``whole`` trials.
    ``only_oracle``: no trial of a real model passed, but ``oracle`` did.
    ``judges_split``: several judges voted, and by some the trial passes and by others not.
    ``unsteady``: in one run, with one model, some repetitions passed and some did not.
    ``saturated``: every trial of every real model passed.

    ``real`` and ``offline`` name the models, ``trials`` counts graded trials of real ones. ``enough`` are the
    trials that a task takes to be missed or saturated; ``too_few`` tasks have fewer.
    """

    missed: tuple[Suspect, ...]
    only_oracle: tuple[Suspect, ...]
    judges_split: tuple[Suspect, ...]
    unsteady: tuple[Suspect, ...]
    saturated: tuple[Suspect, ...]
    real: tuple[str, ...]
    offline: tuple[str, ...]
    trials: int
    too_few: int
    enough: int


Tried = Sequence[tuple[Sample, TaskTally]]
"""A task in each sample that tried it."""


def suspects_among(samples: Sequence[Sample]) -> Suspects:
    """Look at every task of these samples, be they of whole runs or of parts."""
    by_task: dict[str, list[tuple[Sample, TaskTally]]] = {}
    for sample in samples:
        for task, tally in sample.tasks.items():
            if tally.averaged:
                by_task.setdefault(task, []).append((sample, tally))
    real = {task: [pair for pair in tried if not pair[0].offline] for task, tried in by_task.items()}
    enough = trials_that_exclude_chance(sum(map(bool, real.values())))
    counted = {task: tried for task, tried in real.items() if _trials(tried) >= enough}
    missed = [_suspect(task, tried) for task, tried in counted.items() if not _passed(tried)]
    solved = {task for task, tried in by_task.items() if _passed(_of_model(tried, ORACLE))}
    return Suspects(
        missed=_most_first(
            _with_remark(each, by_task[each.task]) for each in missed if each.task not in solved
        ),
        only_oracle=_most_first(
            _with_remark(each, by_task[each.task]) for each in missed if each.task in solved
        ),
        judges_split=_most_first(_all_of(by_task, _split), by=lambda each: each.part / each.whole),
        unsteady=_most_first(_all_of(by_task, _unsteady), by=lambda each: each.part),
        saturated=_most_first(
            _suspect(task, tried) for task, tried in counted.items() if _passed(tried) == _trials(tried)
        ),
        real=_models(sample for sample in samples if not sample.offline),
        offline=_models(sample for sample in samples if sample.offline),
        trials=sum(map(_trials, real.values())),
        too_few=sum(0 < _trials(tried) < enough for tried in real.values()),
        enough=enough,
    )


def trials_that_exclude_chance(tasks: int) -> int:
    """Give in how many trials a task has to miss, each time, for chance to be excluded among so many tasks.

    A task that passes in half of its trials misses n of n with the chance 1 / 2^n; that any of the tasks does
    is to have a chance of BY_CHANCE at most (Bonferroni): 7 trials of 4 tasks, 10 of 41, 11 of 91.
    """
    return math.ceil(math.log2(max(tasks, 1) / BY_CHANCE))


def _all_of(by_task: Mapping[str, Tried], look: Callable[[str, Tried], Suspect | None]) -> Iterable[Suspect]:
    return filter(None, (look(task, tried) for task, tried in by_task.items()))


def _suspect(task: str, tried: Tried) -> Suspect:
    return Suspect(task, _passed(tried), _trials(tried), _runs(tried), _models(pair[0] for pair in tried))


def _split(task: str, tried: Tried) -> Suspect | None:
    judged = [(sample, tally) for sample, tally in tried if tally.judged]
    split = sum(tally.split for _, tally in judged)
    if not split:
        return None
    whole = sum(tally.judged for _, tally in judged)
    return Suspect(task, split, whole, _runs(judged), _models(pair[0] for pair in judged))


def _unsteady(task: str, tried: Tried) -> Suspect | None:
    """Count, of models whose trials of a task do not all end alike in one run, all runs and those."""
    unlike = [(sample, tally) for sample, tally in tried if 0 < tally.passed < tally.averaged]
    models = _models(pair[0] for pair in unlike)
    repeated = [pair for pair in tried if pair[1].averaged > 1 and pair[0].model.name in models]
    if not unlike:
        return None
    remark = f"{_passed(repeated)} of {_trials(repeated)} trials passed"
    return Suspect(task, len(unlike), len(repeated), _runs(unlike), models, remark)


def _with_remark(suspect: Suspect, tried: Tried) -> Suspect:
    """Add what offline models made of the task: they prove nothing against it, but may speak for it."""
    offline: dict[str, Tried] = {}
    for sample, tally in tried:
        if sample.offline:
            offline[sample.model.name] = [*offline.get(sample.model.name, ()), (sample, tally)]
    counts = {name: f"{_passed(pairs)} of {_trials(pairs)}" for name, pairs in offline.items()}
    remark = ", ".join(f"{name} passed {count}" for name, count in counts.items())
    return Suspect(suspect.task, suspect.part, suspect.whole, suspect.runs, suspect.models, remark)


def _most_first(
    suspects: Iterable[Suspect], by: Callable[[Suspect], float] = lambda each: each.whole
) -> tuple[Suspect, ...]:
    return tuple(sorted(suspects, key=lambda each: (-by(each), -each.whole, each.task)))


def _of_model(tried: Tried, model_id: str) -> Tried:
    return [pair for pair in tried if pair[0].model.id == model_id]


def _trials(tried: Tried) -> int:
    return sum(tally.averaged for _, tally in tried)


def _passed(tried: Tried) -> int:
    return sum(tally.passed for _, tally in tried)


def _runs(tried: Tried) -> int:
    return len({sample.run for sample, _ in tried})


def _models(samples: Iterable[Sample]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sample.model.name for sample in samples))

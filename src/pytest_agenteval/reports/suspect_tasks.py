"""Tasks that a suite's runs make suspect: missed or passed by every model, or without a clear result."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_agenteval.graders.judge.verdicts import mean_of_known
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import Record
from pytest_agenteval.reports.trial_view import StoredVote, stored_votes
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import INDENT, MOST_NAME, StyledLine, one_line, pluralize, wrapped_lines

BY_CHANCE = 0.05
"""The chance that any task is named as missed by all, or as passed by all, if each passes half the time."""

ORACLE = "oracle"
MOST_SUSPECTS = 5


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


class TaskTrials(NamedTuple):
    """How a task's trials in one run, with one model and variant, ended: of ``graded`` ones how many passed.

    ``is_offline`` says that no LLM was called: what such a model misses says nothing about a task. Several
    judges voted on ``judged`` trials; on ``split`` of them they disagreed whether the trial passes.
    """

    task: str
    bucket: str
    run: str
    model: RunModel
    is_offline: bool
    graded: int
    passed: int
    judged: int
    split: int


def task_trials(run: Run, model: RunModel, is_offline: bool, entries: Sequence[JournalEntry]) -> TaskTrials:
    """Count how the trials of one task ended."""
    graded = [entry for entry in entries if entry.averaged]
    # Only several judges can disagree, and only for their votes a transcript is read.
    judged = [entry for entry in graded if len(run.header.judges) > 1 and entry.judging.asks]
    splits = [split for entry in judged if (split := _is_split(run, entry)) is not None]
    return TaskTrials(
        task=entries[0].key.task,
        bucket=entries[0].bucket,
        run=run.folder.name,
        model=model,
        is_offline=is_offline,
        graded=len(graded),
        passed=sum(entry.ending == "passed" for entry in graded),
        judged=len(splits),
        split=sum(splits),
    )


def _is_split(run: Run, entry: JournalEntry) -> bool | None:
    """Whether judges disagreed if a trial passes; None where fewer than two could tell."""
    trial = run.trial_if_readable(entry)
    grades = trial.grades if trial else ()
    verdicts = [_judges_verdicts(stored_votes(grade), grade.threshold) for grade in grades]
    of_several = [set(passes) for passes in verdicts if len(passes) > 1]
    return any(len(passes) > 1 for passes in of_several) if of_several else None


def _judges_verdicts(votes: Iterable[StoredVote], threshold: float) -> list[bool]:
    """Give for each judge that could tell whether the grade would pass with this judge alone."""
    # Scores of several candidates that were compared are no verdict on one of them.
    scores = [[each for each in vote.scores.values() if not isinstance(each, Mapping)] for vote in votes]
    means = [mean_of_known(each) for each in scores]
    return [mean >= threshold - ROUNDING for mean in means if mean is not None]


def suspects_among(trials: Sequence[TaskTrials]) -> Suspects:
    """Look at every task of which a trial was graded."""
    tasks: dict[str, list[TaskTrials]] = defaultdict(list)
    for each in trials:
        if each.graded:
            tasks[each.task].append(each)
    # Rule-based models that miss every task prove nothing against one, but may speak for it.
    real = {task: [each for each in group if not each.is_offline] for task, group in tasks.items()}
    enough = trials_that_exclude_chance(sum(map(bool, real.values())))
    missed, only_oracle, saturated, split, unsteady = (list[Suspect]() for _ in range(5))
    for task, group in tasks.items():
        graded, passed = _sums(real[task])
        if graded >= enough and not passed:
            is_solved = any(each.model.id == ORACLE and each.passed for each in group)
            suspect = _suspect(real[task], 0, graded, _offline_remark(group))
            (only_oracle if is_solved else missed).append(suspect)
        elif graded >= enough and passed == graded:
            saturated.append(_suspect(real[task], passed, graded))
        judged = [each for each in group if each.judged]
        if splits := sum(each.split for each in judged):
            split.append(_suspect(judged, splits, sum(each.judged for each in judged)))
        unsteady += _unsteady(group)
    return Suspects(
        missed=_most_first(missed),
        only_oracle=_most_first(only_oracle),
        judges_split=_most_first(split, by=lambda each: each.part / each.whole),
        unsteady=_most_first(unsteady, by=lambda each: each.part),
        saturated=_most_first(saturated),
        real=_models(each for each in trials if not each.is_offline),
        offline=_models(each for each in trials if each.is_offline),
        trials=sum(_sums(group)[0] for group in real.values()),
        too_few=sum(0 < _sums(group)[0] < enough for group in real.values()),
        enough=enough,
    )


def trials_that_exclude_chance(tasks: int) -> int:
    """Give how many trials of a task must all miss to exclude chance, where this many tasks are looked at.

    That is 7 trials of 4 tasks, 10 of 41, 11 of 91.
    """
    # A task that passes in half of its trials misses n of n with the chance 1 / 2^n. The chance that any of
    # the tasks does so is at most the sum over all of them (Bonferroni), which must not exceed BY_CHANCE.
    return math.ceil(math.log2(max(tasks, 1) / BY_CHANCE))


def _sums(trials: Iterable[TaskTrials]) -> tuple[int, int]:
    """Add up graded and passed trials."""
    counts = [(each.graded, each.passed) for each in trials]
    return sum(graded for graded, _ in counts), sum(passed for _, passed in counts)


def _suspect(trials: Sequence[TaskTrials], part: int, whole: int, remark: str = "") -> Suspect:
    runs = len({each.run for each in trials})
    return Suspect(trials[0].task, part, whole, runs, _models(trials), remark)


def _offline_remark(group: Iterable[TaskTrials]) -> str:
    """Say how offline models did."""
    models: dict[str, list[TaskTrials]] = defaultdict(list)
    for each in group:
        if each.is_offline:
            models[each.model.name].append(each)
    sums = {name: _sums(trials) for name, trials in models.items()}
    return ", ".join(f"{name} passed {passed} of {graded}" for name, (graded, passed) in sums.items())


def _unsteady(group: Sequence[TaskTrials]) -> Iterator[Suspect]:
    """Count the runs in which repetitions of a task with one model end differently, of all with the model."""
    unlike = [each for each in group if 0 < each.passed < each.graded]
    if unlike:
        models = _models(unlike)
        repeated = [each for each in group if each.graded > 1 and each.model.name in models]
        graded, passed = _sums(repeated)
        yield _suspect(unlike, len(unlike), len(repeated), f"{passed} of {graded} trials passed")


def _most_first(
    suspects: Iterable[Suspect], by: Callable[[Suspect], float] = lambda each: each.whole
) -> tuple[Suspect, ...]:
    return tuple(sorted(suspects, key=lambda each: (-by(each), -each.whole, each.task)))


def _models(trials: Iterable[TaskTrials]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.model.name for each in trials))


def suspect_lines(suspects: Suspects, suite: str, runs: int, width: int) -> Iterator[StyledLine]:
    """Give the suspect tasks by kind of evidence; kinds without any share one line."""
    title = f"tasks of {one_line(suite, MOST_NAME)} to check, in {pluralize(runs, 'run')}"
    yield from wrapped_lines(title, width, "bold", indent="")
    for line in _counted(suspects):
        yield from wrapped_lines(line, width)
    unlike = "in one run, with one model, some repetitions passed and some missed"
    kinds: Iterable[tuple[str, str, Sequence[Suspect], Callable[[Suspect], str]]] = (
        ("every model misses", "the task or its grader may be wrong", suspects.missed, _passes),
        (
            "only oracle passes",
            "the task can be solved, but no model solves it",
            suspects.only_oracle,
            _passes,
        ),
        ("judges disagree", "some judges pass it, others do not", suspects.judges_split, _votes),
        ("flaky", unlike, suspects.unsteady, _differences),
        ("always passes", "saturated, candidates for agenteval promote", suspects.saturated, _passes),
    )
    none = []
    for title, meaning, of_kind, evidence in kinds:
        # Without a real model neither misses nor passes say anything about a task.
        if evidence is _passes and not suspects.real:
            continue
        if not of_kind:
            none.append(title)
            continue
        yield from wrapped_lines(f"{title} ({len(of_kind)}): {meaning}", width)
        for suspect in of_kind[:MOST_SUSPECTS]:
            text = f"{one_line(suspect.task, MOST_NAME)}  {evidence(suspect)}"
            yield from wrapped_lines(text, width, indent=INDENT * 2)
        if len(of_kind) > MOST_SUSPECTS:
            yield StyledLine(f"{INDENT * 2}and {len(of_kind) - MOST_SUSPECTS} more (--json)", "dim")
    if none:
        yield from wrapped_lines(f"not found: {', '.join(none)}", width)


def _counted(suspects: Suspects) -> Iterator[str]:
    """Say which trials were counted, and of which models they were not."""
    offline = _names(suspects.offline)
    if not suspects.real:
        yield f"no LLM ran: the results of {offline} do not show whether a task is right"
        return
    beside = f"; {offline} without an LLM: not counted as models" if offline else ""
    yield f"counted: {pluralize(suspects.trials, 'graded trial')} of {_names(suspects.real)}{beside}"
    yield (
        f"listed: tasks whose trials ({suspects.enough} or more) all missed or all passed; if each task "
        f"passed half of the time, chance would list one in less than {100 * BY_CHANCE:g} % of suites"
    )
    if suspects.too_few:
        yield f"{pluralize(suspects.too_few, 'task')} with fewer trials: too few to rule out chance"


def _passes(suspect: Suspect) -> str:
    remark = one_line(suspect.remark, MOST_NAME)
    beside = f"; {remark}" if remark else ""
    return f"{suspect.part} of {pluralize(suspect.whole, 'trial')} passed, {_where(suspect)}{beside}"


def _votes(suspect: Suspect) -> str:
    return f"{suspect.part} of {pluralize(suspect.whole, 'judged trial')}, {_where(suspect)}"


def _differences(suspect: Suspect) -> str:
    often = f"{suspect.part} of {pluralize(suspect.whole, 'time')}"
    return f"{often}, {suspect.remark}, {_names(suspect.models)}"


def _where(suspect: Suspect) -> str:
    return f"{pluralize(suspect.runs, 'run')} with {_names(suspect.models)}"


def _names(models: Iterable[str]) -> str:
    return ", ".join(one_line(model, MOST_NAME) for model in models)

"""What a run changes in the baseline's file that it is written into, task by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_agenteval.compare.baseline import read_baseline
from pytest_agenteval.compare.baseline_lines import tasks_of
from pytest_agenteval.compare.drift import RunDrift
from pytest_agenteval.compare.pairing import MUST_EQUAL
from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.text.formatting import model_label, one_line

MOST_NAME = 200


class BaselineTask(FrozenValue, frozen=True):
    """The scores of a task's trials in a baseline's file, null for errored ones, before and after.

    ``differs`` names what of the task is not what it was, so that the scores cannot be compared.
    """

    name: str
    before: tuple[float | None, ...]
    after: tuple[float | None, ...]
    differs: tuple[str, ...] = ()


class BaselineChange(FrozenValue, frozen=True):
    """A baseline's file with what is in it from now on, and which tasks are not as they were."""

    file: str
    is_new: bool
    trials: int
    tasks: int
    changed: tuple[BaselineTask, ...]
    added: tuple[BaselineTask, ...]
    gone: tuple[BaselineTask, ...]


class PooledGroup(FrozenValue, frozen=True):
    """A suite with one model and variant whose trials are of several runs, each tested against the others."""

    suite: str
    model: str
    variant: str
    runs: tuple[RunDrift, ...]


class BaselineDocument(Document, frozen=True, kw_only=True):
    """The files that a run, or several, were written into.

    ``remarks`` say in what several runs differ besides their scores, ``pooled`` whether their scores do.
    """

    run: str
    files: tuple[BaselineChange, ...]
    remarks: tuple[str, ...] = ()
    pooled: tuple[PooledGroup, ...] = ()


def baseline_change(path: Path, entries: Sequence[JournalEntry]) -> BaselineChange:
    """Lay what is to be in a file beside what is there now."""
    after = _tasks(entries)
    before = _tasks(read_baseline(path).entries) if path.exists() else {}
    changed = [name for name in after if name in before and before[name] != after[name]]
    return BaselineChange(
        file=str(path),
        is_new=not path.exists(),
        trials=len(entries),
        tasks=len(after),
        changed=tuple(_task_change(name, before[name], after[name]) for name in changed),
        added=tuple(BaselineTask(name, (), after[name].scores) for name in after if name not in before),
        gone=tuple(BaselineTask(name, before[name].scores, ()) for name in before if name not in after),
    )


class _TaskResults(FrozenValue, frozen=True):
    """What a task's trials came to, and the digests that have to be equal to compare them."""

    scores: tuple[float | None, ...]
    digests: Mapping[str, frozenset[str]]


def _tasks(entries: Sequence[JournalEntry]) -> dict[str, _TaskResults]:
    """Give what each task's trials came to, by the task's name."""
    return {_task_name(trials[0]): _task_results(trials) for trials in tasks_of(entries)}


def _task_name(entry: JournalEntry) -> str:
    who = model_label(entry.key.model, entry.key.variant)
    return one_line(f"{entry.key.suite}/{entry.key.task}[{who}]", MOST_NAME)


def _task_results(trials: Sequence[JournalEntry]) -> _TaskResults:
    digests = {
        words: frozenset(getattr(trial.digests, name) for trial in trials)
        for name, words in MUST_EQUAL.items()
    }
    return _TaskResults(tuple(trial.score if trial.averaged else None for trial in trials), digests)


def _task_change(name: str, before: _TaskResults, after: _TaskResults) -> BaselineTask:
    others = (words for words in after.digests if before.digests[words] != after.digests[words])
    return BaselineTask(name, before.scores, after.scores, tuple(others))

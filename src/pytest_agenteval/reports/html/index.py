"""What the page of a run shows at once: every figure and one row for each task, without transcripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.trial import Ending

FORMAT = 1

NO_CHANGE = 1e-9
"""What means of equal scores may differ by, for the order in which they were added."""


class RunHead(FrozenValue, frozen=True):
    """What is said of a run as a whole; ``warnings`` say what makes its figures doubtful."""

    name: str
    started_at: str
    ended_at: str
    exit_status: int | None
    place: str
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


class OldFigures(FrozenValue, frozen=True):
    """The old side's mean over the compared tasks."""

    score: float
    tasks: int


class Figures(FrozenValue, frozen=True):
    """The figures of a suite or of a bucket, and of its change, which is over the compared tasks alone.

    Scores and ends of intervals run from 0 to 1; ``passed`` is the mean of
    tasks' shares of trials that passed. ``mark`` is ``*`` where trials lack a
    grade that only a judge gives, as in every table. ``says`` is the verdict
    in words: of these tasks alone, perhaps.
    """

    name: str
    tasks: int
    trials: int
    planned: int
    errored: int
    mark: str
    score: float | None
    low: float | None
    high: float | None
    passed: float | None
    tokens: float | None
    usd: float | None
    seconds: float | None
    old: OldFigures | None = None
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    verdict: str = ""
    says: str = ""
    p: float | None = None


class SuiteFigures(FrozenValue, frozen=True):
    """A suite with one model and variant in one run; ``label`` is like no other of the page."""

    suite: str
    label: str
    kind: str
    who: str
    note: str
    run: int
    all: Figures
    buckets: tuple[Figures, ...]


class TrialRow(FrozenValue, frozen=True):
    """One trial: ``at`` is its place in ``chunk``, which is None where its transcript is not in the file.

    ``tokens``, ``usd`` and ``seconds`` are what all its ``attempts`` took, None where it is unknown.
    """

    run: int
    name: str
    repetition: int
    ending: Ending
    score: float | None
    limit: str
    cause: str
    reason: str
    undecided: bool
    tokens: float | None
    usd: float | None
    seconds: float | None
    attempts: int = 1
    disagree: bool = False
    chunk: int | None = None
    at: int = 0


class TaskRow(FrozenValue, frozen=True):
    """One task with one model and variant; ``trials`` and ``old`` are places in the list of all trials.

    ``reason`` is that of its worst trial. ``flag`` names a task whose trials all passed before and none does
    now, or the other way round.
    """

    suite: int
    bucket: str
    task: str
    file: str
    trials: tuple[int, ...]
    old: tuple[int, ...]
    score: float | None
    old_score: float | None
    change: float | None
    flag: str
    reason: str


class ReportIndex(FrozenValue, frozen=True):
    """Everything that the page knows before a trial is opened; compared, the first run is the old one."""

    title: str
    headline: str
    compared: bool
    runs: tuple[RunHead, ...]
    suites: tuple[SuiteFigures, ...]
    tasks: tuple[TaskRow, ...]
    trials: list[TrialRow]
    left_out: str = ""
    format: int = FORMAT


def index_json(data: object) -> str:
    """Write the index so that no text in it can end the element it stands in."""
    return page_json(data).decode().replace("<", "\\u003c")


def page_json(data: object) -> bytes:
    """Write plain data as JSON; half a surrogate pair is written out, as in every other table of a run."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:  # models send such halves, and UTF-8 does not know them
        return msgspec.json.encode(_encodable(data))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list | tuple) else value


def row_filters(index: ReportIndex) -> dict[str, int]:
    """Count the tasks that each filter of the page shows, by its name."""
    trials = index.trials

    def count(matches: Callable[[TrialRow], bool]) -> int:
        return sum(any(matches(trials[at]) for at in task.trials) for task in index.tasks)

    counts: dict[str, int] = {}
    if index.compared:
        counts["better"] = sum((task.change or 0) > NO_CHANGE for task in index.tasks)
        counts["worse"] = sum((task.change or 0) < -NO_CHANGE for task in index.tasks)
    counts["missed"] = count(lambda trial: trial.ending in ("missed", "failed"))
    counts["errored"] = count(lambda trial: trial.ending == "errored")
    counts["disagree"] = count(lambda trial: trial.disagree)
    counts["undecided"] = count(lambda trial: trial.undecided)
    return counts

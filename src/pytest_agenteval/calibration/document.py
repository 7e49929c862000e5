"""What ``agenteval calibrate --json`` writes of the calibrations of a run, with a type for each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.records.record import Document, FrozenValue, from_builtins

Scores = Mapping[str, float | None]


class Figure(FrozenValue, frozen=True):
    """A figure with the ends of its interval; ``reason`` says why one is missing."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


class LabelsRead(FrozenValue, frozen=True):
    """The labelled examples: their file, how many there are, and who gave the labels."""

    file: str
    examples: int
    said: str
    sources: tuple[str, ...]


class RubricRead(FrozenValue, frozen=True):
    """The rubric that judges were given."""

    name: str
    version: str
    digest: str


class JudgeUsage(FrozenValue, frozen=True):
    """What a judge took; null where its price is not known."""

    asks: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None


class UnreadableReplies(FrozenValue, frozen=True):
    """How many of a judge's replies could not be read, and why."""

    asks: int
    count: int
    problem: str


class CalibratedJudge(FrozenValue, frozen=True):
    """Who judged."""

    name: str
    id: str
    offline: bool
    usage: JudgeUsage
    unread: UnreadableReplies | None = None


class Intervals(FrozenValue, frozen=True):
    """How intervals are made: by so many draws of a bootstrap from this seed, and how sure they are."""

    draws: int
    seed: int
    level: float


class Threshold(FrozenValue, frozen=True):
    """What had to be reached, and what was found."""

    metric: str
    dimension: str
    threshold: float
    reached: bool
    found: Figure


class Confusion(FrozenValue, frozen=True):
    """How often each label, a row, was judged to be each category, a column."""

    categories: tuple[Any, ...]
    rows: tuple[tuple[int, ...], ...]


class JudgeNoise(FrozenValue, frozen=True):
    """How far a judge is from itself, over examples that it judged several times."""

    examples: int
    spread: Figure
    flips: Figure


class Agreement(FrozenValue, frozen=True):
    """How far one judge, or all together where the name is empty, agrees with the labels of a dimension."""

    judge: str
    dimension: str
    examples: int
    scored: int
    pairs: int
    figures: Mapping[str, Figure]
    confusion: Confusion
    noise: JudgeNoise | None = None


class DisagreementVote(FrozenValue, frozen=True):
    """What one judge found of a dimension."""

    judge: str
    score: float | None
    rationale: str


class Disagreement(FrozenValue, frozen=True):
    """An example that judges see differently than its label; the furthest come first."""

    id: str
    dimension: str
    label: float
    score: float
    repetition: int
    source: str
    note: str
    input: Mapping[str, Any]
    output: str
    votes: tuple[DisagreementVote, ...]


class JudgeVote(FrozenValue, frozen=True):
    """What one judge replied about an example: as read, and ``raw``."""

    judge: str
    scores: Scores
    rationale: str
    raw: tuple[str, ...]
    problem: str = ""
    order: tuple[str, ...] = ()
    seed: str = ""


class JudgedAsk(FrozenValue, frozen=True):
    """One judgement of an example."""

    repetition: int
    prompt: str
    scores: Scores
    spread: Scores
    votes: tuple[JudgeVote, ...]


class JudgedExample(FrozenValue, frozen=True):
    """An example with its labels, and each judgement of it."""

    id: str
    source: str
    labels: Scores
    asks: tuple[JudgedAsk, ...]


class CalibrationFigures(FrozenValue, frozen=True):
    """One calibration: how far judges agree with labels, by dimension, and whether that is enough.

    Scores run from 0 to 1. ``page`` is the page for people.
    """

    page: str
    id: str
    file: str
    description: str
    labels: LabelsRead
    rubric: RubricRead
    dimensions: Mapping[str, str]
    combine: str
    judges: tuple[CalibratedJudge, ...]
    repeats: int
    tolerance: float
    pass_threshold: float
    intervals: Intervals
    thresholds: tuple[Threshold, ...]
    passed: bool
    measured: tuple[Agreement, ...]
    among_judges: Mapping[str, Figure]
    disagreements: tuple[Disagreement, ...]
    examples: tuple[JudgedExample, ...]


class CalibrateDocument(Document, frozen=True, kw_only=True):
    """What a run of pytest found of judges; ``run`` is its folder, null where none was started.

    ``exit_status`` is pytest's: 1 where a threshold is not reached. Without a judge nothing is
    calibrated.
    """

    run: str | None
    exit_status: int
    calibrations: tuple[CalibrationFigures, ...]


def calibrate_document(
    folder: Path | None, exit_status: int, calibrations: Iterable[tuple[Path, Mapping[str, Any]]]
) -> CalibrateDocument:
    """Make the document of ``agenteval calibrate --json``; ``calibrations`` are pages with their figures.

    The figures are those that ``read_calibrations`` gives.
    """
    pages = ({**data, "page": str(page)} for page, data in calibrations)
    figures = tuple(from_builtins(CalibrationFigures, data, strict=False) for data in pages)
    run = str(folder) if folder else None
    return CalibrateDocument(run=run, exit_status=exit_status, calibrations=figures)

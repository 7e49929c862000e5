"""The Korean benchmark's scorecard: a suite's trials with one model as seven levels and a composite."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from pytest_agenteval import (
    JournalEntry,
    Metric,
    MetricGroup,
    ReportOption,
    Scorecard,
    Total,
    TotalPart,
)
from pytest_agenteval.benchmarks.ko_agentbench.levels import (
    COMMON_METRICS,
    LEVEL_METRICS,
    TrialMetric,
    level_means,
    levels_of,
)
from pytest_agenteval.benchmarks.ko_agentbench.weighted_means import WeightedMean, weighted_sum
from pytest_agenteval.reports.group_statistics import NO_JUDGE, grades_lacking_judge

PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"basic": ("L1", "L2", "L3"), "robustness": ("L5",), "efficiency": ("L6",), "context": ("L7",)}
)
"""Which levels a part is the mean of. L4 is in none of them: it is shown beside the composite."""

WEIGHTS: Mapping[str, float] = MappingProxyType(
    {"basic": 0.40, "robustness": 0.20, "efficiency": 0.25, "context": 0.15}
)
NAME, BESIDE = "composite", "L4"
ROUNDING = 1e-9


def composite(levels: Mapping[str, WeightedMean], weights: Mapping[str, float] = WEIGHTS) -> Total:
    """Give 0.40·mean(L1, L2, L3) + 0.20·L5 + 0.25·L6 + 0.15·L7, or the same with other weights.

    The interval is that of one mean over all tasks that count, each level's drawn independently of the
    others': the half task at either end of the scale, which a level alone is given, is given once to the
    whole. So levels that happen to show no spread neither widen it by what they alone would not know, nor
    draw it towards the middle. It is None where a level that counts has none.

    ``levels`` has those that are decided. Raises ValueError for weights that ``checked_weights`` refuses.
    """
    shares = level_shares(checked_weights(weights))
    values = {name: levels[name].value if name in levels else None for name in shares}
    counted = [name for name, share in shares.items() if share > 0]
    missing = tuple(name for name in counted if name not in levels)
    parts = tuple(
        TotalPart(part, _mean([values[name] for name in names]), weights[part], names)
        for part, names in PARTS.items()
    )
    if missing:
        return Total(NAME, None, None, parts, missing, BESIDE)
    whole = weighted_sum([(shares[name], levels[name]) for name in counted])
    sure = all(levels[name].interval() for name in counted)
    return Total(NAME, whole.value, whole.interval() if sure else None, parts, (), BESIDE)


def checked_weights(weights: Mapping[str, float]) -> Mapping[str, float]:
    """Give the weights back; raises ValueError unless each part has one, 0 or more, and they sum to 1."""
    unknown = [name for name in weights if name not in PARTS]
    lacking = [name for name in PARTS if name not in weights]
    if unknown or lacking:
        names = ", ".join(weights) or "nothing"
        raise ValueError(f"expected a weight for each of {', '.join(PARTS)}; found {names}")
    if not all(0 <= weight <= 1 for weight in weights.values()):
        raise ValueError(f"a weight is a number from 0 to 1: {_weights_text(weights)}")
    whole = math.fsum(weights.values())
    if abs(whole - 1) > ROUNDING:
        raise ValueError(f"weights sum to 1, and these to {whole:g}: {_weights_text(weights)}")
    return weights


def read_weights(text: str) -> Mapping[str, float]:
    """Read ``basic=0.4,robustness=0.2,efficiency=0.25,context=0.15``; raises ValueError for anything else."""
    weights: dict[str, float] = {}
    for pair in text.split(","):
        name, _, number = pair.partition("=")
        try:
            weights[name.strip()] = float(number)
        except ValueError:
            raise ValueError(f"expected part=number, as in basic=0.4; found {pair!r}") from None
    return checked_weights(weights)


def level_shares(weights: Mapping[str, float]) -> dict[str, float]:
    """Give each level's share of the composite."""
    return {name: weights[part] / len(names) for part, names in PARTS.items() for name in names}


def _mean(values: Sequence[float | None]) -> float | None:
    decided = [value for value in values if value is not None]
    return math.fsum(decided) / len(decided) if len(decided) == len(values) else None


def _weights_text(weights: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={weight:g}" for name, weight in weights.items())


OPTIONS = (
    ReportOption(
        "--weights",
        "PART=N,...",
        "what parts weigh in the Korean benchmark's composite "
        "(default: basic=0.4,robustness=0.2,efficiency=0.25,context=0.15)",
        read_weights,
    ),
)

Lacking = Mapping[tuple[str, str], int]
"""By level and metric, the tasks that lack a grade only a judge gives."""


def scorecard(entries: Sequence[JournalEntry], weights: Mapping[str, float] = WEIGHTS) -> Scorecard | None:
    """Give the levels and the composite of a suite with one model, None where it is not this benchmark's.

    ``weights`` say what the composite's parts weigh.
    """
    if not has_levels(entries):
        return None
    lacking = _count_unjudged(entries)
    observed = list(_trial_metrics(entries))
    levels = tuple(_with_unjudged(level, lacking, entries) for level in levels_of(observed))
    return Scorecard(levels, composite(level_means(observed), weights))


def has_levels(entries: Iterable[JournalEntry]) -> bool:
    """Whether grades are this benchmark's: some bucket is a level, with a metric of its own."""
    return any(
        grade.grader in LEVEL_METRICS[entry.bucket]
        for entry in entries
        if entry.bucket in LEVEL_METRICS
        for grade in entry.grades
    )


def _trial_metrics(entries: Iterable[JournalEntry]) -> Iterator[TrialMetric]:
    for entry in entries:
        metrics = {*LEVEL_METRICS.get(entry.bucket, ()), *COMMON_METRICS}
        if entry.averaged:
            task = (entry.key.task, entry.key.agent)
            yield from (
                TrialMetric(entry.bucket, grade.grader, task, grade.value)
                for grade in entry.grades
                if grade.grader in metrics
            )


def _count_unjudged(entries: Iterable[JournalEntry]) -> Lacking:
    tasks: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for entry in entries:
        for grade in grades_lacking_judge(entry) if entry.averaged else ():
            tasks.setdefault((entry.bucket, grade.grader), set()).add((entry.key.task, entry.key.agent))
    return {name: len(lacking) for name, lacking in tasks.items()}


def _with_unjudged(level: MetricGroup, lacking: Lacking, entries: Iterable[JournalEntry]) -> MetricGroup:
    """Add what the figures of a level lack: judges' grades, or, where there is no figure, the reason."""

    def counted(metric: Metric) -> Metric:
        return replace(metric, unjudged=lacking.get((level.name, metric.name), 0))

    metrics = tuple(map(counted, level.metrics))
    of_level = [entry for entry in entries if entry.bucket == level.name]
    return MetricGroup(
        total=replace(level.total, unjudged=sum(metric.unjudged for metric in metrics)),
        metrics=metrics,
        beside=tuple(map(counted, level.beside)),
        reason=_reason(level.name, of_level) if level.value is None and of_level else "",
    )


def _reason(level: str, of_level: Sequence[JournalEntry]) -> str:
    """Say why nothing is decided in a level that was tried."""
    own = (grade for entry in of_level for grade in entry.grades if grade.grader in LEVEL_METRICS[level])
    if any(grade.undecided == NO_JUDGE for grade in own):
        return "needs --agent-judge"
    return "undecided" if any(entry.averaged for entry in of_level) else "errored"

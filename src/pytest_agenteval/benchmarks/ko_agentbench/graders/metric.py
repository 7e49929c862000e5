"""What a metric is: one number about one trial, worked out in one of two ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar, TypeAlias

from pytest_agenteval import Evidence, Grade
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import (
    Combine,
    KoTask,
    Mode,
    check_task_keys,
    normalize_task_keys,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace, trace_of
from pytest_agenteval.records.record import FrozenValue


class UpstreamError(Exception):
    """Where the benchmark's own code throws; its evaluator makes that a score of 0."""


class MetricResult(FrozenValue, frozen=True):
    """What a metric found; ``details`` is what the benchmark's report holds beside the score."""

    score: float | None
    reason: str
    details: Mapping[str, Any] | None = None
    more: Mapping[str, Any] = {}
    undecided: str = ""

    def grade(self, name: str) -> Grade:
        """Give it as a grade; a score below 0, as upstream has them, is carried beside the grade's 0."""
        details: dict[str, Any] = {} if self.details is None else {"upstream": dict(self.details)}
        below = self.score if self.score is not None and self.score < 0 else None
        score = self.score if below is None else 0.0
        details |= self.more
        return Grade(name, score, self.reason, details=details, unclamped=below, undecided=self.undecided)


MetricFunction: TypeAlias = Callable[[KoTask, KoTrace], MetricResult]


def not_applicable(reason: str) -> MetricResult:
    """Say that a metric has nothing to say about a trial."""
    return MetricResult(None, f"not applicable: {reason}", undecided="not_applicable")


def upstream_error_result(raised: UpstreamError) -> MetricResult:
    """Give what the benchmark makes of its own exceptions."""
    reason = f"the benchmark's code throws here: {raised}"
    return MetricResult(0.0, reason, more={"upstream_error": str(raised)})


class CodeMetric(FrozenValue, frozen=True):
    """A metric that needs no judge: what reports call it, and both ways to work it out.

    ``upstream`` is None for a metric that the benchmark documents and no longer has in its code.
    """

    label: str
    default: MetricFunction
    upstream: MetricFunction | None

    def of(self, task: KoTask, trace: KoTrace, mode: Mode) -> MetricResult:
        """Work it out in this mode."""
        if mode == "default":
            return self.default(task, trace)
        if self.upstream is None:
            return MetricResult(None, "not in the benchmark's code", undecided="not_defined")
        try:
            return self.upstream(task, trace)
        except UpstreamError as raised:
            return upstream_error_result(raised)


@dataclass(frozen=True)
class KoGrader(KoTask):
    """A metric as a grader: a task's keys, and how to count.

    ``default`` counts what the benchmark documents. ``upstream`` counts as its code does, faults included,
    so that figures can be laid beside its own. ``combine`` says how ``default`` makes one score of several
    judges'.
    """

    mode: Mode = "default"
    combine: Combine = "mean"

    version: ClassVar[str] = "3"
    # Most metrics only measure: those that may fail a trial say so themselves.
    threshold: ClassVar[float] = 0.0
    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_task_keys(self, self.mode, self.combine)
        if self.mode == "default":
            normalize_task_keys(self)


@dataclass(frozen=True)
class ComputedGrader(KoGrader):
    """A grader of a metric that only computes."""

    quick: ClassVar[bool] = True
    metric: ClassVar[CodeMetric]

    def grade(self, evidence: Evidence) -> Grade:
        """Work the metric out; the benchmark's own code compares texts however Unicode spells them."""
        normal = evidence.in_normal_form() if self.mode == "default" else evidence
        return self.metric.of(self, trace_of(normal), self.mode).grade(self.name)


def share(part: float, whole: float) -> float:
    """Give a part of a whole, from 0 to 1."""
    return min(1.0, max(0.0, part / whole))


def naive_sum(numbers: Iterable[float]) -> float:
    """Give the sum as repeated addition gives it, to the last digit.

    From Python 3.12 on ``sum`` makes up for what rounding loses, and so differs from published figures.
    """
    return reduce(add, numbers, 0)

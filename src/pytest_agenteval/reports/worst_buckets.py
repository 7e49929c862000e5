"""Which buckets of a suite are worth a line on a screen: the worst, and large ones with any miss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.statistics import GroupStatistics
from pytest_agenteval.reports.suite_rows import tasks_passed
from pytest_agenteval.reports.suite_table import interval_cell, mark_unjudged, mean_cell
from pytest_agenteval.reports.view import RunView, SuiteView
from pytest_agenteval.text.formatting import MOST_NAME, NOT_KNOWN, one_line, pluralize

LARGE = 5
"""Tasks of a bucket whose misses are shown however many buckets are worse."""

MOST_LARGE, FEW_SUITES = 12, 3
"""Rows of a suite's large buckets, where there are few suites; with more they get as many as small ones."""

MOST_ROWS, MOST_OF_ALL = 6, 12
"""Rows of one suite, and of all suites together, as long as each has one."""


class BucketRow(FrozenValue, frozen=True):
    """One line: the names of buckets whose figures are equal, and these figures."""

    names: tuple[str, ...]
    score: str
    interval: str
    passed: str


class WorstBuckets(FrozenValue, frozen=True):
    """The rows of a suite, worst first; ``more`` buckets with misses have none."""

    title: str
    rows: tuple[BucketRow, ...]
    more: int


def worst_buckets(view: RunView) -> list[WorstBuckets]:
    """Give the worst buckets of each suite that has several, some of which missed.

    The more suites there are the fewer rows each has.
    """
    suites = [suite for suite in view.suites if len(suite.rows) > 1 and any(map(_misses, suite.rows))]
    most = max(1, min(MOST_ROWS, MOST_OF_ALL // max(1, len(suites))))
    most_large = MOST_LARGE if len(suites) <= FEW_SUITES else most
    return [_worst_of(view.label(suite), suite, most, most_large) for suite in suites]


def _worst_of(label: str, suite: SuiteView, most: int, most_large: int) -> WorstBuckets:
    missed = sorted((row for row in suite.rows if _misses(row)), key=_mean)
    large = [row for row in missed if row.tasks >= LARGE][:most_large]
    small = [row for row in missed if row.tasks < LARGE][: max(1, most - len(large))]
    chosen = sorted((*large, *small), key=_mean)
    return WorstBuckets(_title(label, suite), tuple(_rows(chosen)), len(missed) - len(chosen))


def _misses(row: GroupStatistics) -> bool:
    return row.pass_1 is not None and row.pass_1.value < 1


def _mean(row: GroupStatistics) -> float:
    return row.mean.mean if row.mean else 0.0


def _title(label: str, suite: SuiteView) -> str:
    whole = [row for row in suite.rows if row.pass_1 is not None and not _misses(row)]
    untold = sum(row.pass_1 is None for row in suite.rows)
    parts = [pluralize(len(suite.rows), "bucket")]
    if whole:
        parts.append(f"{mark_unjudged(str(len(whole)), sum(row.unproven for row in whole))} passed in full")
    if untold:
        parts.append(f"{untold} without a figure")
    return f"{label}, worst first ({', '.join(parts)})"


def _rows(buckets: Sequence[GroupStatistics]) -> list[BucketRow]:
    rows = []
    for (score, interval, passed, _), equal in groupby(buckets, _cells):
        names = tuple(map(_name, equal))
        rows.append(BucketRow(names, score, interval, passed))
    return rows


def _name(bucket: GroupStatistics) -> str:
    return one_line(bucket.name, MOST_NAME) or NOT_KNOWN


def _cells(bucket: GroupStatistics) -> tuple[str, str, str, str]:
    """Give the figures of a bucket as they are printed: small ones that look equal share a line."""
    between = interval_cell(bucket) if bucket.mean and bucket.mean.interval else ""
    alone = _name(bucket) if bucket.tasks >= LARGE else ""
    return mean_cell(bucket), between, tasks_passed(bucket), alone

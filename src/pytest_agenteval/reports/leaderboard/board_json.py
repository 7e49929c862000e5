"""Boards as JSON values, for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_agenteval.reports.leaderboard.standings import Leaderboard, Standing, count_graded_differently
from pytest_agenteval.reports.scorecard import Metric, MetricGroup, Scorecard, Total
from pytest_agenteval.reports.statistics import GroupStatistics
from pytest_agenteval.scoring.intervals import Interval

FORMAT = 1


def leaderboards_json(boards: Sequence[Leaderboard]) -> dict[str, Any]:
    """Give everything the tables show, with all digits, as JSON values."""
    totals = [row.total for board in boards for row in board.standings if row.total]
    weights = {part.name: part.weight for total in totals for part in total.parts}
    return {"v": FORMAT, "weights": weights, "boards": [_board(board) for board in boards]}


def _board(board: Leaderboard) -> dict[str, Any]:
    return {
        "suite": board.suite,
        "levels": board.has_scorecard,
        "graded_differently": count_graded_differently(board.standings),
        "rows": [_standing(row) for row in board.standings],
    }


def _standing(row: Standing) -> dict[str, Any]:
    data: dict[str, Any] = {
        "run": row.run,
        "path": row.path,
        "model": row.view.model,
        "variant": row.view.variant,
        "note": row.view.note,
        "all": _figures(row.view.total),
        "buckets": {bucket.name: _figures(bucket) for bucket in row.view.rows},
    }
    if row.scorecard is not None:
        data |= _scorecard(row.scorecard)
    return data


def _scorecard(scorecard: Scorecard) -> dict[str, Any]:
    """Give a scorecard under keys that are the same for every benchmark: a level is any group of metrics."""
    data: dict[str, Any] = {}
    if scorecard.total is not None:
        data["composite"] = _total(scorecard, scorecard.total)
    data["levels"] = {group.name: _group(group) for group in scorecard.groups}
    if scorecard.notes:
        data["notes"] = list(scorecard.notes)
    return data


def _figures(row: GroupStatistics) -> dict[str, Any]:
    return {
        "score": row.mean.mean if row.mean else None,
        **_ends(row.mean.interval if row.mean else None),
        "tasks": row.tasks,
        "planned": row.planned,
        "averaged": row.averaged,
        "errored": sum(row.errored.values()),
        "not_run": row.not_run,
        "without_judge": row.unscored,
        "k": row.k,
        "pass_1": row.pass_1.value if row.pass_1 else None,
        "pass_at_k": row.pass_at_k.value if row.pass_at_k else None,
        "pass_hat_k": row.pass_hat_k.value if row.pass_hat_k else None,
    }


def _total(scorecard: Scorecard, total: Total) -> dict[str, Any]:
    beside = scorecard.group(total.beside)
    return {
        "value": total.value,
        **_ends(total.interval),
        "parts": {part.name: part.value for part in total.parts},
        "weights": {part.name: part.weight for part in total.parts},
        "missing": list(total.missing),
        "beside": beside.value if beside else None,
    }


def _group(group: MetricGroup) -> dict[str, Any]:
    return {
        **_metric(group.total),
        "metrics": {metric.name: _metric(metric) for metric in group.metrics},
        "common": {metric.name: _metric(metric) for metric in group.beside},
    }


def _metric(metric: Metric) -> dict[str, Any]:
    return {"value": metric.value, **_ends(metric.interval), "tasks": metric.tasks}


def _ends(found: Interval | None) -> dict[str, float | None]:
    return {"low": found.low if found else None, "high": found.high if found else None}

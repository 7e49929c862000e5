"""Boards as JSON values, for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.composite import WEIGHTS, Composite
from pytest_agenteval.benchmarks.ko_agentbench.levels import Level, Measured
from pytest_agenteval.reports.leaderboard.standings import Board, Standing, count_graded_differently
from pytest_agenteval.reports.statistics import GroupStatistics
from pytest_agenteval.scoring.intervals import Interval

FORMAT = 1


def boards_json(boards: Iterable[Board], weights: Mapping[str, float] = WEIGHTS) -> dict[str, Any]:
    """Give everything the tables show, with all digits, as JSON values."""
    return {"v": FORMAT, "weights": dict(weights), "boards": [_board(board) for board in boards]}


def _board(board: Board) -> dict[str, Any]:
    return {
        "suite": board.suite,
        "levels": board.has_levels,
        "graded_differently": count_graded_differently(board.standings),
        "rows": [_standing(row) for row in board.standings],
    }


def _standing(row: Standing) -> dict[str, Any]:
    found: dict[str, Any] = {
        "run": row.run,
        "path": row.path,
        "model": row.view.model,
        "variant": row.view.variant,
        "note": row.view.note,
        "all": _figures(row.view.total),
        "buckets": {each.name: _figures(each) for each in row.view.rows},
    }
    if row.composite is not None:
        found["composite"] = _composite(row.composite)
        found["levels"] = {level.name: _level(level) for level in row.levels}
    return found


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


def _composite(found: Composite) -> dict[str, Any]:
    return {
        "value": found.value,
        **_ends(found.interval),
        "parts": dict(found.parts),
        "missing": list(found.missing),
        "beside": found.beside,
    }


def _level(level: Level) -> dict[str, Any]:
    return {
        **_measured(level.total),
        "metrics": {each.name: _measured(each) for each in level.metrics},
        "common": {each.name: _measured(each) for each in level.common},
    }


def _measured(found: Measured) -> dict[str, Any]:
    return {"value": found.value, **_ends(found.interval), "tasks": found.tasks}


def _ends(found: Interval | None) -> dict[str, float | None]:
    return {"low": found.low if found else None, "high": found.high if found else None}

"""What one run says of one suite with one model, which of several stand on one board, and boards as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.decisions import decisions_json
from pytest_agenteval.reports.scorecard import (
    Metric,
    MetricGroup,
    RegisteredScorecard,
    Scorecard,
    Total,
)
from pytest_agenteval.reports.scorecard_making import BrokenScorecard, scorecard_of
from pytest_agenteval.reports.statistics import GroupStatistics, ResourceUse
from pytest_agenteval.reports.view import SuiteView, entries_by_group, suite_views
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run

Rulers = Mapping[str, frozenset[str]]
FORMAT = 1


class Standing(FrozenValue, frozen=True):
    """A suite with one model and variant in one run.

    ``scorecard`` is there where a benchmark makes one of its grades; ``broken`` says why one could not be
    made. ``rulers`` names what each task was graded by.
    """

    run: str
    path: str
    view: SuiteView
    scorecard: Scorecard | None
    rulers: Rulers
    broken: str = ""

    @property
    def total(self) -> Total | None:
        """The scorecard's total, None where there is no scorecard or it has no total."""
        return self.scorecard.total if self.scorecard else None

    @property
    def value(self) -> float | None:
        """The figure that the board is ordered by: the scorecard's total, else the mean score."""
        if self.total is not None:
            return self.total.value
        return self.view.total.mean.mean if self.view.total.mean else None


class Leaderboard(FrozenValue, frozen=True):
    """All standings of one suite, best first, those without a figure last."""

    suite: str
    standings: tuple[Standing, ...]

    @property
    def has_scorecard(self) -> bool:
        """Whether a benchmark makes a scorecard of the suite's grades."""
        return any(standing.scorecard for standing in self.standings)


def leaderboards_of(runs: Iterable[Run], scorecards: Sequence[RegisteredScorecard] = ()) -> list[Leaderboard]:
    """Work out a board for each suite, in order of appearance; no transcript is read."""
    by_suite: dict[str, list[Standing]] = {}
    for run in runs:
        for standing in standings_of(run, scorecards):
            by_suite.setdefault(standing.view.suite, []).append(standing)
    return [Leaderboard(suite, tuple(sorted(rows, key=_best_first))) for suite, rows in by_suite.items()]


def standings_of(run: Run, scorecards: Iterable[RegisteredScorecard] = ()) -> Iterator[Standing]:
    """Give what a run says of each of its suites with each model and variant."""
    groups = entries_by_group(run)
    for suite in suite_views(run):
        entries = groups[suite.suite, suite.model, suite.variant]
        scorecard, broken = None, ""
        try:
            scorecard = scorecard_of(entries, scorecards)
        except BrokenScorecard as mistake:
            broken = str(mistake)
        yield Standing(
            run=run.name,
            path=str(run.folder),
            view=suite,
            scorecard=scorecard,
            rulers=_rulers(entries),
            broken=broken,
        )


def suite_entries(run: Run, suite: SuiteView) -> list[JournalEntry]:
    """Give the entries of a suite with one model and variant."""
    group = (suite.suite, suite.model, suite.variant)
    return [entry for entry in run.entries if (entry.key.suite, entry.key.model, entry.key.variant) == group]


def count_graded_differently(standings: Sequence[Standing]) -> int:
    """Count the tasks that several standings have and that were not graded by the same ruler in all."""
    by_task: dict[str, set[str]] = {}
    for standing in standings:
        for task, rulers in standing.rulers.items():
            by_task.setdefault(task, set()).update(rulers)
    return sum(len(rulers) > 1 for rulers in by_task.values())


def _rulers(entries: Iterable[JournalEntry]) -> Rulers:
    by_task: dict[str, frozenset[str]] = {}
    known: dict[str, frozenset[str]] = {}
    for entry in entries:
        ruler, task = entry.digests.ruler, entry.key.task
        if ruler:
            alone = known.setdefault(ruler, frozenset((ruler,)))  # most tasks have one, and many the same
            before = by_task.setdefault(task, alone)
            if before is not alone:
                by_task[task] = before | alone
    return by_task


def _best_first(standing: Standing) -> tuple[bool, float, str, str]:
    value = standing.value
    return value is None, -(value or 0.0), standing.view.who, standing.run


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
    if row.view.decisions:
        data["decisions"] = decisions_json(row.view.decisions)
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
        "full": row.full,
        "tasks_passed": row.tasks_passed,
        "tasks_decided": row.tasks_decided,
        "errored_by_cause": dict(row.errored),
        "limits_reached": dict(row.limited),
        "undecided": dict(row.undecided),
        "unproven": row.unproven,
        "retried": row.retried,
        "spent": _spent(row.spent),
        "judging": {**_spent(row.judging), "replies": row.judge_asks},
        "tool_tape": row.tools.to_json(),
        "chat_tape": row.chats.to_json(),
    }


def _spent(use: ResourceUse) -> dict[str, Any]:
    """Give what was taken, under the names that docs/data.md gives for trials."""
    return {
        "tokens": use.tokens.known_part,
        "tokens_untold": use.tokens.unknown,
        "cost_usd": use.cost.known_part,
        "unpriced": use.cost.unknown,
        "seconds": use.seconds.known_part,
        "untimed": use.seconds.unknown,
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


def _ends(interval: Interval | None) -> dict[str, float | None]:
    return {"low": interval.low if interval else None, "high": interval.high if interval else None}

"""One row for each suite of a run, with what it scored and what it took; and what holds for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.records.transcript import (
    Figure,
    cost_figure,
    format_cost,
    format_seconds,
    format_tokens,
    token_figure,
)
from pytest_agenteval.reports.decisions import decision_figures
from pytest_agenteval.reports.statistics import GroupStatistics
from pytest_agenteval.reports.suite_table import MARK, interval_cell, mark_unjudged, mean_cell, trials_cell
from pytest_agenteval.reports.tables import Column
from pytest_agenteval.reports.view import RunView
from pytest_agenteval.text.formatting import format_figure, plural, pluralize


def suite_columns(view: RunView) -> list[Column]:
    """Give the columns of figures, a cell for each row: no tokens and cost where nothing was spent."""
    totals = [suite.total for suite in view.suites]
    columns = [
        Column("score", tuple(mean_cell(total) for total in totals)),
        Column("95 %", tuple(interval_cell(total) for total in totals)),
        Column("tasks passed", tuple(tasks_passed(total) for total in totals)),
        Column("trials", tuple(trials_cell(total) for total in totals)),
        Column("agent time", tuple(format_seconds(total.spent.seconds) for total in totals)),
    ]
    if any(total.spent.tokens or total.spent.cost for total in totals):
        spent = [total.spent for total in totals]
        columns.append(Column("tokens", tuple(format_tokens(part.tokens) for part in spent)))
        columns.append(Column("cost", tuple(format_cost(part.cost) for part in spent)))
    return columns


def suite_cells(view: RunView) -> Iterator[list[str]]:
    """Give a row of cells for each suite that explain themselves: the first two to the left, others right."""
    score, interval, passed, trials, *spent = (column.cells for column in suite_columns(view))
    for at, (suite, mean) in enumerate(zip(view.suites, even_marks(score), strict=True)):
        planned = "trial" if suite.total.planned == 1 else plural("trial")
        between = f" ({interval[at]})" if suite.total.mean and suite.total.mean.interval else ""
        yield [
            view.label(suite),
            f"{mean}{between}",
            _tasks_cell(passed[at], suite.total),
            f"{trials[at]} {planned}",
            *(cells[at] for cells in spent),
        ]


def _tasks_cell(passed: str, total: GroupStatistics) -> str:
    if not total.tasks_decided:
        return f"0 of {pluralize(total.tasks, 'task')} decided"
    return f"{passed} {'task' if total.tasks_decided == 1 else plural('task')} passed"


def tasks_passed(row: GroupStatistics) -> str:
    """Write how many of the decided tasks passed: ``8 of 25``."""
    return f"{mark_unjudged(str(row.tasks_passed), row.unproven)} of {row.tasks_decided}"


def even_marks(cells: Sequence[str]) -> list[str]:
    """Fill figures without a mark where others have one: their digits stand below each other."""
    if not any(cell.endswith(MARK) for cell in cells):
        return list(cells)
    return [cell if cell.endswith(MARK) else f"{cell} " for cell in cells]


def remarks_on_all(view: RunView) -> Iterator[str]:
    """Give what stands below the suites: who acted, pass^k, whether they acted rightly, what judges took."""
    yield "; ".join(_players(view))
    by_k: dict[int, list[str]] = {}
    for suite in view.suites:
        if suite.total.k > 1 and suite.total.pass_hat_k:
            by_k.setdefault(suite.total.k, []).append(f"{view.label(suite)} {_pass_hat_k(suite.total)}")
    yield from (f"pass^{k}: {', '.join(rates)}" for k, rates in by_k.items())
    for suite in view.suites:
        if suite.decisions:
            yield f"{view.label(suite)} acting: {decision_figures(suite.decisions)}"
    if any(suite.total.judge_asks for suite in view.suites):
        yield _judging(view)
    yield from _simulating(view)


def _simulating(view: RunView) -> Iterator[str]:
    taken = view.simulating
    if taken.asks:
        tokens, cost = format_tokens(token_figure(taken)), format_cost(cost_figure(taken))
        yield f"simulated users: {pluralize(taken.asks, 'turn')}, {tokens}, {cost}"


def brief_remarks(view: RunView) -> Iterator[str]:
    """Give those of them that a short screen has too: what agents asked by themselves, what users took.

    Nothing is said of agents where each row names its own, or where all is planned.
    """
    yield from _simulating(view)
    if any(suite.own_models for suite in view.suites):
        whos = {suite.who for suite in view.suites}
        if len(whos) == 1:
            yield f"model: {' '.join(whos)}"


def _players(view: RunView) -> Iterator[str]:
    """Name offline models with what they do; a real one where no row does."""
    whos = {suite.who for suite in view.suites}
    for model, note in {suite.model: suite.note for suite in view.suites}.items():
        if note:
            yield f"{model}: {note}"
        elif len(whos) == 1:
            yield f"model: {' '.join(whos)}"


def _pass_hat_k(total: GroupStatistics) -> str:
    rate = total.pass_hat_k
    if rate is None:
        return format_figure(None)
    of_fewer = f" ({rate.tasks} of {pluralize(total.tasks, 'task')})" if rate.tasks < total.tasks else ""
    return mark_unjudged(format_figure(rate.value), total.unproven) + of_fewer


def _judging(view: RunView) -> str:
    judging = [suite.total.judging for suite in view.suites]
    asks = sum(suite.total.judge_asks for suite in view.suites)
    tokens = format_tokens(sum((part.tokens for part in judging), Figure()))
    cost = format_cost(sum((part.cost for part in judging), Figure()))
    return f"judges: {pluralize(asks, 'reply')}, {tokens}, {cost}"

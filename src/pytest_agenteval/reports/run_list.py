"""Stored runs in a list: what each scored, took and ended with, and the verdict beside its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.records.record import Document, FrozenValue
from pytest_agenteval.records.transcript import format_cost
from pytest_agenteval.reports.run_view import (
    SuiteView,
    entries_by_group,
    suite_views,
)
from pytest_agenteval.reports.suite_tables import interval_cell, mean_cell
from pytest_agenteval.reports.tables import ReportTable, TableColumn
from pytest_agenteval.store.run_documents import RULES, StoredComparison, StoredVerdict, read_comparison
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import MOST_NAME, NOT_KNOWN, format_moment, one_line, pluralize

NOTHING_RUN = "no trials"


class ListedRun(FrozenValue, frozen=True):
    """A run as a list has it: its suites with their figures, each with the verdict of the run's comparison.

    ``headline`` is that verdict in a sentence; empty for a run that was compared with nothing.
    """

    name: str
    path: str
    started_at: str
    ended_at: str
    exit_status: int | None
    suites: tuple[SuiteView, ...]
    ended: tuple[int, ...]
    verdicts: tuple[StoredVerdict | None, ...]
    headline: str
    unreadable: tuple[str, ...]


def listed_run(run: Run, unreadable: tuple[str, ...] = ()) -> ListedRun:
    """Work out what a list says of a run; ``unreadable`` says what could not be read."""
    suites, groups = tuple(suite_views(run)), entries_by_group(run)
    comparison, problem = read_comparison(run.folder)
    return ListedRun(
        name=run.folder.name,
        path=str(run.folder),
        started_at=run.header.started_at,
        ended_at=run.header.ended_at,
        exit_status=run.header.exit_status,
        suites=suites,
        ended=tuple(len(groups[suite.group]) for suite in suites),
        verdicts=tuple(_verdict(comparison, suite) for suite in suites),
        headline=comparison.headline if comparison else "",
        unreadable=(*unreadable, *filter(None, (problem,))),
    )


def _verdict(comparison: StoredComparison | None, suite: SuiteView) -> StoredVerdict | None:
    verdicts = comparison.verdicts if comparison else ()
    return next((verdict for verdict in verdicts if (verdict.suite, *verdict.who) == suite.group), None)


def run_list_table(runs: Sequence[ListedRun], results: str, stored: int) -> ReportTable:
    """Give a row for each suite of each run with each model; a run's name stands in its first row."""
    rows = [row for run in runs for row in _rows(run)]
    titles = ("started", "suite", "model", "score", "95 %", "trials", "cost", "exit", "verdict")
    spare = {"started": 1, "95 %": 2, "exit": 3, "cost": 4}
    cells = list(zip(*(row[1:] for row in rows), strict=True))
    columns = [
        TableColumn(title, column, spare.get(title, 0)) for title, column in zip(titles, cells, strict=True)
    ]
    if all(cell == NOT_KNOWN for cell in columns[-1].cells):
        columns.pop()
    some = f", {len(runs)} of {stored:,} (--all, -n)" if len(runs) < stored else ""
    title = f"{pluralize(stored, 'run')} in {results}, newest first{some}"
    return ReportTable(title, "run", tuple(row[0] for row in rows), (tuple(columns),), names_beside=True)


def _rows(run: ListedRun) -> Iterator[tuple[str, ...]]:
    name, when = one_line(run.name, MOST_NAME), format_moment(run.started_at) or NOT_KNOWN
    status = "not ended" if run.exit_status is None else str(run.exit_status)
    if not run.suites:
        yield name, when, NOTHING_RUN, *[NOT_KNOWN] * 5, status, NOT_KNOWN
    for at, suite in enumerate(run.suites):
        first = (name, when) if at == 0 else ("", "")
        total = suite.total
        spent = total.spent.tokens or total.spent.cost
        yield (
            *first,
            one_line(suite.suite, MOST_NAME),
            one_line(suite.who, MOST_NAME),
            mean_cell(total),
            interval_cell(total),
            f"{total.averaged:,} of {max(total.planned, run.ended[at]):,}",
            format_cost(total.spent.cost) if spent else NOT_KNOWN,
            status if at == 0 else "",
            _word(run.verdicts[at]),
        )


def _word(verdict: StoredVerdict | None) -> str:
    """Say what became of a suite; where one cannot tell of it as a whole, what became of its buckets."""
    if verdict is None:
        return NOT_KNOWN
    older = "" if verdict.rules == RULES else ", by older rules"
    for word, buckets in (("worse", verdict.buckets_worse), ("better", verdict.buckets_better)):
        if verdict.verdict != word and buckets and verdict.verdict not in ("worse", "better"):
            return f"{word}: {pluralize(len(buckets), 'bucket')}{older}"
    only = " on these tasks" if verdict.of_these_tasks and verdict.verdict in ("worse", "better") else ""
    return f"{verdict.verdict}{only}{older}"


class SuiteFigures(FrozenValue, frozen=True):
    """A suite with one model and variant: its mean score with the ends of its 95 % interval, 0 to 1.

    ``ended`` of the ``planned`` trials have an ending. ``tokens`` and ``cost_usd`` are
    what is known, null where nothing is, without that of ``tokens_untold`` and ``unpriced`` trials.
    """

    suite: str
    kind: str
    model: str
    variant: str
    score: float | None
    low: float | None
    high: float | None
    tasks: int
    planned: int
    ended: int
    errored: int
    tokens: float | None
    tokens_untold: int
    cost_usd: float | None
    unpriced: int
    seconds: float | None
    verdict: StoredVerdict | None


class RunFigures(FrozenValue, frozen=True):
    """A run of the list; see ``ListedRun``. ``exit_status`` is pytest's, null where the run never ended."""

    name: str
    path: str
    started_at: str
    ended_at: str
    exit_status: int | None
    headline: str
    suites: tuple[SuiteFigures, ...]
    odd: tuple[str, ...]


class RunListDocument(Document, frozen=True, kw_only=True):
    """Stored runs, the newest first, ``stored`` being how many there are in all."""

    stored: int
    runs: tuple[RunFigures, ...]


def run_list_document(runs: Sequence[ListedRun], stored: int) -> RunListDocument:
    """Give the same with all digits."""
    return RunListDocument(stored=stored, runs=tuple(map(_run_figures, runs)))


def _run_figures(run: ListedRun) -> RunFigures:
    suites = zip(run.suites, run.ended, run.verdicts, strict=True)
    return RunFigures(
        name=run.name,
        path=run.path,
        started_at=run.started_at,
        ended_at=run.ended_at,
        exit_status=run.exit_status,
        headline=run.headline,
        suites=tuple(_suite_figures(*suite) for suite in suites),
        odd=run.unreadable,
    )


def _suite_figures(suite: SuiteView, ended: int, verdict: StoredVerdict | None) -> SuiteFigures:
    total = suite.total
    interval = total.interval
    return SuiteFigures(
        suite=suite.suite,
        kind=suite.kind,
        model=suite.model,
        variant=suite.variant,
        score=total.score,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        tasks=total.tasks,
        planned=max(total.planned, ended),
        ended=ended,
        errored=total.errors,
        tokens=total.spent.tokens.known_part,
        tokens_untold=total.spent.tokens.unknown,
        cost_usd=total.spent.cost.known_part,
        unpriced=total.spent.cost.unknown,
        seconds=total.spent.seconds.known_part,
        verdict=verdict,
    )

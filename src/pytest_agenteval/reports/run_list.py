"""Stored runs as a list: a row for each suite, with the verdict of the run's comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pytest_agenteval import __version__
from pytest_agenteval.compare.resource_figures import run_wall
from pytest_agenteval.compare.scoring.intervals import interval_ends
from pytest_agenteval.records.record import NOTHING, Document, FrozenValue
from pytest_agenteval.records.transcript import Figure
from pytest_agenteval.reports.resource_text import cost_cell, turn_cell, wall_cell
from pytest_agenteval.reports.run_view import SuiteView, entries_by_group, suite_views
from pytest_agenteval.reports.suite_tables import interval_cell, mean_cell
from pytest_agenteval.reports.tables import ReportTable, TableColumn
from pytest_agenteval.store.record_files import replace_json
from pytest_agenteval.store.run_documents import EXTRA, LOOKS, RULES, StoredVerdict, read_comparison
from pytest_agenteval.store.run_folder import HEADER, PLANNED, read_header_or_name
from pytest_agenteval.store.run_reader import Run, first_unreadable, load_run
from pytest_agenteval.text.formatting import MOST_NAME, NOT_KNOWN, format_moment, one_line, pluralize


class SuiteFigures(FrozenValue, frozen=True):
    """A suite with one model and variant: its mean score with the ends of its 95 % interval, 0 to 1.

    ``ended`` of the ``planned`` trials have an ending. ``tokens`` and ``cost_usd`` are
    what is known, null where nothing is, without that of ``tokens_untold`` and ``unpriced`` trials; likewise
    ``seconds`` without ``untimed`` trials, and ``wall_seconds``, in which any of them ran. ``turn_p50`` and
    ``turn_p95`` are seconds of a model's turn, null where ``turns_untimed`` trials have replies of unknown
    times.
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
    untimed: int
    wall_seconds: float | None
    wall_untimed: int
    turns: int
    turns_untimed: int
    turn_p50: float | None
    turn_p95: float | None
    verdict: StoredVerdict | None


class RunFigures(FrozenValue, frozen=True):
    """A run of the list; see ``ListedRun``. ``exit_status`` is pytest's, null where the run never ended.

    ``wall_seconds`` is the time in which pytest worked on it, without that of ``wall_untimed`` sessions.
    """

    name: str
    path: str
    started_at: str
    ended_at: str
    exit_status: int | None
    wall_seconds: float | None
    wall_untimed: int
    headline: str
    suites: tuple[SuiteFigures, ...]
    odd: tuple[str, ...]


class RunListDocument(Document, frozen=True, kw_only=True):
    """Stored runs, the newest first, ``stored`` being how many there are in all."""

    stored: int
    runs: tuple[RunFigures, ...]


class SuiteCells(FrozenValue, frozen=True):
    """The cells of a suite's row that its figures alone do not give."""

    who: str
    score: str
    interval: str
    averaged: int
    cost: str
    turns: str


class ListedRun(NamedTuple):
    """A run as a list has it: its figures, with the verdicts of its comparison, and the cells of its suites.

    ``headline`` is the comparison in a sentence; empty for a run that was compared with nothing.
    """

    figures: RunFigures
    suites: tuple[SuiteCells, ...]


class StoredFigures(FrozenValue, frozen=True):
    """What a list needs of a run, as it was worked out from ``files``, of which sizes and times are named.

    ``suites`` are ``SuiteFigures`` without verdicts: a run may be compared later.
    """

    package: str
    files: dict[str, tuple[int, int]]
    suites: tuple[dict[str, Any], ...]
    cells: tuple[SuiteCells, ...]
    odd: tuple[str, ...]


# To read a run of so many bytes takes longer than a list should.
LARGE = 4_000_000
FIGURES = "figures.json"
READ = ("journal-*.jsonl", HEADER, PLANNED, EXTRA, LOOKS)


def listed_run(folder: Path, run: Run | None = None, *, store: bool = True) -> ListedRun:
    """Make the entry of a run in a list, with what could not be read of it.

    ``run`` is what was read of it already. Unless ``store`` is False, figures of a large run are stored.
    """
    stored = _stored_figures(folder, store) if run is None else _figures_of(run)
    header, _ = read_header_or_name(folder)
    comparison, problem = read_comparison(folder)
    # From the last to the first: where a suite has several verdicts, the first one counts.
    verdicts = {(each.suite, *each.who): each for each in (comparison.verdicts if comparison else ())[::-1]}
    wall = run_wall(header)
    figures = RunFigures(
        name=folder.name,
        path=str(folder),
        started_at=header.started_at,
        ended_at=header.ended_at,
        exit_status=header.exit_status,
        wall_seconds=wall.known_part,
        wall_untimed=wall.unknown,
        headline=comparison.headline if comparison else "",
        suites=tuple(
            # Made by hand, as whole numbers would be read back as fractions.
            SuiteFigures(**suite, verdict=verdicts.get((suite["suite"], suite["model"], suite["variant"])))
            for suite in stored.suites
        ),
        odd=(*stored.odd, *filter(None, (problem,))),
    )
    return ListedRun(figures, stored.cells)


def _stored_figures(folder: Path, store: bool) -> StoredFigures:
    """Read the figures of a run, or work them out; ``store`` those of a large run that has ended."""
    # What is added while the run is read makes the files differ from these, and is read next time.
    states = {path.name: path.stat() for pattern in READ for path in folder.glob(pattern)}
    files = {name: (state.st_size, state.st_mtime_ns) for name, state in states.items()}
    with suppress(OSError, msgspec.MsgspecError):
        stored = msgspec.json.decode((folder / FIGURES).read_bytes(), type=StoredFigures)
        fields = {*SuiteFigures.__struct_fields__} - {"verdict"}
        # Commits between two versions have the same number, and perhaps other figures.
        is_ours = stored.package == __version__ and all(suite.keys() == fields for suite in stored.suites)
        if is_ours and stored.files == files:
            return stored
    run = load_run(folder)
    stored = _figures_of(run, files)
    if store and run.header.ended_at and sum(size for size, _ in files.values()) >= LARGE:
        # They only save time, so a folder that cannot be written to is no error.
        with suppress(OSError):
            replace_json(folder / FIGURES, msgspec.to_builtins(stored))
    return stored


def _figures_of(run: Run, files: Mapping[str, tuple[int, int]] = NOTHING) -> StoredFigures:
    views, groups = suite_views(run), entries_by_group(run)
    return StoredFigures(
        package=__version__,
        files=dict(files),
        suites=tuple(_suite_figures(suite, len(groups[suite.group])) for suite in views),
        cells=tuple(map(_suite_cells, views)),
        odd=tuple(first_unreadable(run.odd)),
    )


def _suite_cells(suite: SuiteView) -> SuiteCells:
    total = suite.total
    # Where no tokens were seen there is no cost, as on the other screens.
    spent = total.spent.tokens or total.spent.cost
    return SuiteCells(
        who=one_line(suite.who, MOST_NAME),
        score=mean_cell(total),
        interval=interval_cell(total),
        averaged=total.averaged,
        cost=cost_cell(total.spent.cost) if spent else NOT_KNOWN,
        turns=NOT_KNOWN if total.turns.p95 is None else turn_cell(total.turns) or NOT_KNOWN,
    )


def _suite_figures(suite: SuiteView, ended: int) -> dict[str, Any]:
    total = suite.total
    return {
        "suite": suite.suite,
        "kind": suite.kind,
        "model": suite.model,
        "variant": suite.variant,
        "score": total.score,
        **interval_ends(total.interval),
        "tasks": total.tasks,
        "planned": max(total.planned, ended),
        "ended": ended,
        "errored": total.errors,
        **total.resources.to_json(),
    }


TURNS = "turn p50/p95"


def run_list_table(runs: Sequence[ListedRun], results: str, stored: int) -> ReportTable:
    """Give a row for each suite of each run with each model; a run's name stands in its first row."""
    rows = [row for run in runs for row in _rows(run)]
    heads = ("started", "suite", "model", "score", "95 %", "trials", "cost", TURNS, "wall", "exit", "verdict")
    spare = {TURNS: 1, "wall": 2, "started": 3, "95 %": 4, "exit": 5, "cost": 6}
    columns = [
        TableColumn(title, tuple(row[at] for row in rows), spare.get(title, 0))
        for at, title in enumerate(heads, start=1)
    ]
    # Without a baseline no run has a verdict, and in runs of offline models nobody knows how long a turn is.
    columns = [
        column
        for column in columns
        if column.title not in (TURNS, "verdict") or any(cell != NOT_KNOWN for cell in column.cells)
    ]
    some = f", {len(runs)} of {stored:,} (--all, -n)" if len(runs) < stored else ""
    title = f"{pluralize(stored, 'run')} in {results}, newest first{some}"
    return ReportTable(title, "run", tuple(row[0] for row in rows), (tuple(columns),), names_beside=True)


def _rows(run: ListedRun) -> Iterator[tuple[str, ...]]:
    figures = run.figures
    name, when = one_line(figures.name, MOST_NAME), format_moment(figures.started_at) or NOT_KNOWN
    status = "not ended" if figures.exit_status is None else str(figures.exit_status)
    wall = wall_cell(Figure(figures.wall_seconds or 0, figures.wall_untimed))
    if not run.suites:
        yield name, when, "no trials", *[NOT_KNOWN] * 6, wall, status, NOT_KNOWN
    for cells, of_suite in zip(run.suites, figures.suites, strict=True):
        yield (
            name,
            when,
            one_line(of_suite.suite, MOST_NAME),
            cells.who,
            cells.score,
            cells.interval,
            f"{cells.averaged:,} of {of_suite.planned:,}",
            cells.cost,
            cells.turns,
            wall,
            status,
            verdict_text(of_suite.verdict),
        )
        name = when = status = wall = ""


def verdict_text(verdict: StoredVerdict | None) -> str:
    """Write the verdict on a suite or, where there is none on the whole of it, that on its buckets."""
    if verdict is None:
        return NOT_KNOWN
    # Verdicts are stored with the run, and the rules for them may have changed since.
    older = "" if verdict.rules == RULES else ", by older rules"
    if verdict.verdict in ("worse", "better"):
        return f"{verdict.verdict}{' on these tasks' if verdict.of_these_tasks else ''}{older}"
    for word, buckets in (("worse", verdict.buckets_worse), ("better", verdict.buckets_better)):
        if buckets:
            return f"{word}: {pluralize(len(buckets), 'bucket')}{older}"
    return f"{verdict.verdict}{older}"

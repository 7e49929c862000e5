"""One HTML file of a run, or of two beside each other: it opens from disk and asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean as mean
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from pytest_agenteval.compare.comparison import SuiteComparison, TaskChange
from pytest_agenteval.compare.pairing import group_of
from pytest_agenteval.compare.scoring.aggregates import decided_scores
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.processes.files import replacing
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.explanation import ending_reason
from pytest_agenteval.reports.comparison_report import basis_lines
from pytest_agenteval.reports.comparison_text import headline, suite_comparison, verdict_text
from pytest_agenteval.reports.group_statistics import GroupStatistics, TaskName, group_by_task
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    LeaderboardRow,
    leaderboard_tables,
    leaderboards_of,
    scorecard_tables,
    suite_entries,
)
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import RunView, SuiteView, view_of, worst_first
from pytest_agenteval.reports.run_warnings import run_warnings
from pytest_agenteval.reports.suite_tables import MARK
from pytest_agenteval.reports.tables import ReportTable
from pytest_agenteval.reports.trial_view import judges_disagree, trial_view
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import format_ends, format_figure, pluralize, printable
from pytest_agenteval.text.json_values import encoder_fallback
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from jinja2 import Environment

FORMAT = 1
"""Of the page's index, which is plain data for the page's scripts and its template."""

Fields: TypeAlias = dict[str, Any]


class PageTrial(NamedTuple):
    """A trial by the number of its run on the page; ``run`` is None where there are only its figures."""

    number: int
    run: Run | None
    entry: JournalEntry


class PageTask(NamedTuple):
    """One task with one model and variant: its row, and its trials in the new and in the old run."""

    row: Fields
    new: Sequence[PageTrial]
    old: Sequence[PageTrial]


def report_index(source: ReportSource) -> tuple[Fields, list[PageTrial]]:
    """Give the page's index and its trials, in the order of their rows.

    Compared, the first run is the old one. ``left_out`` is to say in a sentence whose transcripts the file
    lacks.
    """
    views = [view_of(run) for run in source.runs]
    heads = [_run_head(view) for view in views]
    if source.old_run is not None:
        heads.insert(0, _run_head(view_of(source.old_run)))
    elif source.comparison is not None:
        note = "a baseline's file, which has figures and no transcripts"
        heads.insert(0, _run_head(RunView(source.comparison.old, "", "", "", None, (note,), (), ())))
    suites: list[Fields] = []
    tasks: list[PageTask] = []
    labels = iter(_suite_labels(views))
    compared = source.comparison is not None
    for at, (run, view) in enumerate(zip(source.runs, views, strict=True), start=int(compared)):
        for suite in view.suites:
            comparison = suite_comparison(source.comparison, suite)
            tasks += _tasks_of(source, run, suite, (len(suites), at), comparison)
            suites.append(_suite_figures(suite, next(labels), at, comparison))
    trials: list[PageTrial] = []
    for task in tasks:
        for name, of_side in (("trials", task.new), ("old", task.old)):
            task.row[name] = list(range(len(trials), len(trials) + len(of_side)))
            trials += of_side
    index = {
        "title": " · ".join(dict.fromkeys(suite["suite"] for suite in suites)) or "no trials",
        "headline": headline(source.comparison) if source.comparison else "",
        "compared": compared,
        "runs": heads,
        "suites": suites,
        "tasks": [task.row for task in tasks],
        "trials": list(map(_trial_row, trials)),
        "left_out": "",
        "format": FORMAT,
    }
    return index, trials


def row_filters(index: Fields) -> dict[str, int]:
    """Count the tasks that each filter of the page shows, by its name."""
    of_trials: dict[str, Callable[[Fields], bool]] = {
        "missed": lambda trial: trial["ending"] in ("missed", "failed"),
        "errored": lambda trial: trial["ending"] == "errored",
        "disagree": lambda trial: trial["disagree"],
        "undecided": lambda trial: trial["undecided"],
    }
    counts = {}
    if index["compared"]:
        changes = [task["change"] or 0 for task in index["tasks"]]
        counts["better"] = sum(change > ROUNDING for change in changes)
        counts["worse"] = sum(change < -ROUNDING for change in changes)
    for name, fits in of_trials.items():
        fitting = [fits(trial) for trial in index["trials"]]
        counts[name] = sum(any(fitting[at] for at in task["trials"]) for task in index["tasks"])
    return counts


def _suite_labels(views: Sequence[RunView]) -> Iterator[str]:
    """Name each suite by itself where that is unique on the page, else with its model, else also its run."""
    names = [
        (suite.suite, f"{suite.suite}[{suite.who}]", f"{suite.suite}[{suite.who}] ({view.name})")
        for view in views
        for suite in view.suites
    ]
    times = Counter(name for each in names for name in each[:2])
    yield from (next((name for name in each[:2] if times[name] == 1), each[2]) for each in names)


def _run_head(view: RunView) -> Fields:
    return {
        "name": view.name,
        "started_at": view.started_at,
        "ended_at": view.ended_at,
        "exit_status": view.exit_status,
        "place": view.path,
        "notes": list(view.notes),
        "warnings": [note.text for note in run_warnings(view)],
    }


def _suite_figures(suite: SuiteView, label: str, run: int, comparison: SuiteComparison | None) -> Fields:
    changes = {change.name: change for change in comparison.buckets} if comparison else {}
    whole = comparison.suite if comparison else None
    # A comparison does not test the only bucket of a suite: its change is that of the suite.
    only = whole if len(suite.rows) == 1 else None
    return {
        "suite": suite.suite,
        "label": label,
        "kind": suite.kinds,
        "who": suite.who,
        "note": suite.note,
        "run": run,
        "all": _figures(suite.total, whole),
        "buckets": [_figures(row, changes.get(row.name) or only) for row in suite.rows],
    }


def _figures(row: GroupStatistics, change: Change | None) -> Fields:
    """Give the figures of a suite or of a bucket, and of its change, which is over the compared tasks alone.

    ``passed`` is the mean of tasks' shares of trials that passed. ``mark`` is ``*`` where trials lack a grade
    that only a judge gives, as in every table. ``says`` is the verdict in words.
    """
    interval, between = row.interval, change.interval if change else None
    return {
        "name": row.name,
        "tasks": row.tasks,
        "trials": row.averaged,
        "planned": row.planned,
        "errored": row.errors,
        "mark": MARK if row.unscored and row.mean else "",
        "score": row.score,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "passed": row.pass_1.value if row.pass_1 else None,
        "tokens": row.spent.tokens.value,
        "usd": row.spent.cost.value,
        "seconds": row.spent.seconds.value,
        "old": {"score": change.old, "tasks": change.tasks} if change else None,
        "change": change.change if change else None,
        "change_low": between.low if between else None,
        "change_high": between.high if between else None,
        "verdict": change.verdict if change else "",
        "says": verdict_text(change) if change and change.testable else "",
        "p": change.p_of_verdict if change else None,
    }


def _tasks_of(
    source: ReportSource,
    run: Run,
    suite: SuiteView,
    places: tuple[int, int],
    comparison: SuiteComparison | None,
) -> Iterator[PageTask]:
    """Give the tasks of a suite, in the order of buckets, then of names.

    ``places`` are the numbers of the suite and of the run in the index.
    """
    changes = {change.task: change for change in comparison.tasks} if comparison else {}
    old: dict[TaskName, list[JournalEntry]] = {}
    if source.old is not None and comparison is not None:
        group = (suite.suite, *comparison.old_who)
        old = group_by_task(entry for entry in source.old.entries if group_of(entry) == group)
    order = {row.name: at for at, row in enumerate(suite.rows)}
    new = group_by_task(suite_entries(run, suite))
    for name, entries in sorted(new.items(), key=lambda each: (order[each[1][0].bucket], each[0])):
        yield PageTask(
            _task_row(places[0], entries, changes.get(name[0])),
            [PageTrial(places[1], run, entry) for entry in entries],
            [PageTrial(0, source.old_run, entry) for entry in old.get(name, ())],
        )


def _task_row(suite: int, entries: Sequence[JournalEntry], change: TaskChange | None) -> Fields:
    """Give a task's row; ``trials`` and ``old`` are to be places in the list of all trials.

    ``flag`` names a task whose trials all passed before and none does now, or the other way round.
    """
    worst = worst_first(entries)
    scores = decided_scores(entry.score if entry.averaged else None for entry in entries)
    old_scores = decided_scores(change.old) if change else []
    return {
        "suite": suite,
        "bucket": entries[0].bucket,
        "task": entries[0].key.task,
        "file": entries[0].file,
        "trials": [],
        "old": [],
        "score": mean(scores) if scores else None,
        "old_score": mean(old_scores) if old_scores else None,
        "change": change.change if change else None,
        "flag": "broken" if change and change.broken else "mended" if change and change.mended else "",
        "reason": ending_reason(worst[0]) if worst else "",
    }


def _trial_row(trial: PageTrial) -> Fields:
    """Give a trial's row; its transcript will be ``at`` a place in ``chunk``, None where the file lacks it.

    ``tokens``, ``usd`` and ``seconds`` are what all its ``attempts`` took.
    """
    entry = trial.entry
    return {
        "run": trial.number,
        "name": entry.key.label,
        "repetition": entry.key.repetition,
        "ending": entry.ending,
        "score": entry.score if entry.averaged else None,
        "limit": entry.limit,
        "cause": entry.cause,
        "reason": ending_reason(entry),
        "undecided": any(grade.score is None for grade in entry.grades),
        "tokens": entry.all_tokens,
        "usd": entry.all_cost_usd,
        "seconds": entry.all_seconds,
        "attempts": entry.attempts,
        "disagree": False,
        "chunk": None,
        "at": 0,
    }


SCRIPTS = (
    "vendor/preact-htm.js",
    "text.js",
    "data.js",
    "charts.js",
    "pictures.js",
    "trial.js",
    "list.js",
    "app.js",
)
"""Scripts of the page, in the order in which they are one: each uses what stands before it."""


@cache
def page_environment() -> Environment:
    """Give the templates of all pages; a value that a template lacks is an error."""
    # Collecting tests must not load jinja2, and few runs write a page.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("pytest_agenteval.reports", "html/templates"),
        autoescape=True,
        finalize=_written_out,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _written_out(value: Any) -> Any:
    # Hides secrets, and escapes characters that turn the writing direction or cannot be seen. What a template
    # marks as safe, such as a script, is of another type than str and stays as it is.
    return printable(KNOWN_SECRETS.text(value)) if type(value) is str else value


def page_file(name: str) -> str:
    return files("pytest_agenteval").joinpath(f"reports/html/page/{name}").read_text(encoding="utf-8")


def write_html(path: Path, source: ReportSource) -> None:
    """Write the page; an OSError leaves the file as it was."""
    index, trials = report_index(source)
    # The index, which stands above the chunks, holds their places: chunks are written first, into a file
    # without a name, as a run may be larger than memory.
    with tempfile.TemporaryFile() as chunks:
        index["left_out"] = _write_chunks(chunks, index["trials"], trials)
        chunks.seek(0)
        index = KNOWN_SECRETS.value(index)
        # One function around all parts: nothing outside of the script can see into it.
        parts = [page_file(name) for name in SCRIPTS]
        script = "(() => {\n" + "\n".join(parts).replace("</script", "<\\/script") + "\n})();"
        boards = leaderboards_of(source.all_runs, source.scorecards)
        basis = basis_lines(source.comparison) if source.comparison else ()
        text = (
            page_environment()
            .get_template("report.html.jinja")
            .render(
                index=index,
                filters=row_filters(index),
                rests_on="\n".join(basis),
                boards=[table for board in boards for table in _tables(board)],
                figure=format_figure,
                ends=format_ends,
                style=page_file("kit.css") + page_file("page.css") + page_file("pictures.css"),
                script=script,
                # The page's Content-Security-Policy allows this one script, by its digest, and no other.
                script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
                # HTML looks for `</script` and `<!--` in a script of any type; JSON has an escape for `<`.
                index_json=_page_json(index).decode().replace("<", "\\u003c"),
            )
        )
        with replacing(path) as beside, beside.open("wb") as file:
            file.write(text.encode(errors="backslashreplace"))
            shutil.copyfileobj(chunks, file)
            file.write(b"</body>\n</html>\n")


MOST_TEXT = 200_000
"""Characters of one text."""

LARGEST = 2**53 - 1
"""The largest whole number that browsers tell from its neighbours."""


def _page_json(data: object) -> bytes:
    """Write plain data as JSON, without what browsers stumble over."""
    return msgspec.json.encode(_for_browsers(data))


def _for_browsers(value: Any) -> Any:
    if isinstance(value, str):
        # Models send halves of surrogate pairs, which UTF-8 cannot hold.
        text = value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
        if len(text) <= MOST_TEXT:
            return text
        # So that a reply of megabytes does not make the page unusable; both of its ends stay.
        half = MOST_TEXT // 2
        left_out = f"{len(text) - 2 * half:,} characters are left out here: agenteval show --full"
        return f"{text[:half]}\n\n… {left_out} …\n\n{text[-half:]}"
    if isinstance(value, dict):
        return {_for_browsers(key): _for_browsers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_for_browsers(inner) for inner in value]
    # A browser reads larger numbers as the next one that it knows: an id of 64 bits would be another's.
    return str(value) if isinstance(value, int) and abs(value) > LARGEST else value


MOST_TRIALS = 10
MOST_BYTES = 256 * 1024
"""Bytes of JSON from which on a chunk is full: one is decoded in some hundredths of a second."""

GZIP = 31
"""zlib's word for gzip, whose header is then without a date: the same run gives the same file."""


def _write_chunks(file: IO[bytes], rows: Sequence[Fields], trials: Sequence[PageTrial]) -> str:
    """Write the trials in chunks, which the page decodes when one is opened; rows get their places.

    Gives a sentence where trials cannot be read. One transcript at a time is in memory, beside the chunk that
    is being filled.
    """
    waiting: list[bytes] = []
    chunk = unreadable = 0
    # Those that did not pass stand together: they are opened one after the other, and share a chunk.
    for row, trial in sorted(zip(rows, trials, strict=True), key=lambda pair: pair[0]["ending"] == "passed"):
        if trial.run is None:
            continue
        if (record := trial.run.trial_if_readable(trial.entry)) is None:
            unreadable += 1
            continue
        if len(waiting) >= MOST_TRIALS or sum(map(len, waiting)) >= MOST_BYTES:
            _write_chunk(file, chunk, waiting)
            chunk, waiting = chunk + 1, []
        row |= {"disagree": judges_disagree(record.grades), "chunk": chunk, "at": len(waiting)}
        view = msgspec.to_builtins(trial_view(record), enc_hook=encoder_fallback)
        waiting.append(_page_json(KNOWN_SECRETS.value(view)))
    if waiting:
        _write_chunk(file, chunk, waiting)
    return f"The transcripts of {pluralize(unreadable, 'trial')} cannot be read." if unreadable else ""


def _write_chunk(file: IO[bytes], number: int, documents: Sequence[bytes]) -> None:
    """Write trials as one element of compressed JSON."""
    packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    packed = packer.compress(b"[" + b",".join(documents) + b"]") + packer.flush()
    head = f'<script type="text/plain" class="chunk" id="c{number}">'.encode()
    file.write(head + base64.b64encode(packed) + b"</script>\n")


WHOLE = 3
"""Rows of a board that are about the suite as a whole, above its buckets."""


class PageTable(NamedTuple):
    """A table of a board; with a dot for each row, or with the shades of each column's cells."""

    table: ReportTable
    dots: Sequence[Fields | None] = ()
    shades: Sequence[Sequence[float | None]] = ()


def _tables(board: Leaderboard) -> Iterator[PageTable]:
    """Give the tables of a suite as the page shows them: its scorecard, or its models side by side."""
    if len(board.standings) == 1:
        for standing in board.standings:
            if standing.scorecard:
                yield from map(PageTable, scorecard_tables(standing, standing.scorecard))
        return
    first, *others = leaderboard_tables(board)
    # A row of a board with a scorecard is a model with one total: a dot. Else its columns are models, and its
    # rows buckets whose cells are shaded by their scores.
    if board.has_scorecard:
        yield PageTable(first, dots=list(map(_dot, board.standings)))
    else:
        yield PageTable(
            first, shades=[_shades(standing, first.names[WHOLE:]) for standing in board.standings]
        )
    yield from map(PageTable, others)


def _shades(standing: LeaderboardRow, names: Sequence[str]) -> list[float | None]:
    scores = {bucket.name: bucket.score for bucket in standing.view.rows}
    return [*[None] * WHOLE, *(_percent(scores.get(name)) for name in names)]


def _dot(standing: LeaderboardRow) -> Fields | None:
    """Give a figure with its interval, in percents of the way from 0 to 1; None where there is none."""
    if standing.value is None:
        return None
    interval = (standing.total or standing.view.total).interval
    low, high = (interval.low, interval.high) if interval else (None, None)
    return {"at": _percent(standing.value), "low": _percent(low), "high": _percent(high)}


def _percent(value: float | None) -> float | None:
    return None if value is None else round(100 * min(1.0, max(0.0, value)), 2)

"""One HTML file of a run, or of several sides: it opens from disk and asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import msgspec

from pytest_agenteval.processes.files import replacing
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    LeaderboardRow,
    leaderboard_tables,
    leaderboards_of,
    scorecard_tables,
)
from pytest_agenteval.reports.page_index import Fields, IndexedTrial, packed_index, page_index
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.sides_report import verdict_sentences
from pytest_agenteval.reports.tables import ReportTable
from pytest_agenteval.reports.trial_view import judges_disagree, trial_view
from pytest_agenteval.text.formatting import format_ends, format_figure, pluralize, printable
from pytest_agenteval.text.json_values import encoder_fallback
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from jinja2 import Environment


def row_filters(index: Fields) -> dict[str, int]:
    """Count the tasks that each filter of the page shows, by its name.

    Of two sides these are the tasks of the new one, of more those of any side.
    """
    of_trials: dict[str, Callable[[Fields], bool]] = {
        "missed": lambda trial: trial["ending"] in ("missed", "failed"),
        "errored": lambda trial: trial["ending"] == "errored",
        "disagree": lambda trial: trial["disagree"],
        "undecided": lambda trial: trial["undecided"],
    }
    found: dict[str, set[int]] = {}
    if index["old"] is not None:
        changes = _largest_changes(index)
        found["better"] = {place for place, (_, most) in changes.items() if most > ROUNDING}
        found["worse"] = {place for place, (least, _) in changes.items() if least < -ROUNDING}
    sides = index["sides"]
    counted = {1} if len(sides) == 2 else set(range(len(sides)))
    for name, fits in of_trials.items():
        found[name] = {row["task"] for row in index["trials"] if row["side"] in counted and fits(row)}
    return {name: _count_tasks(index, places) for name, places in found.items()}


def _largest_changes(index: Fields) -> dict[int, tuple[float, float]]:
    """Give the smallest and the largest change from the old side of each task that has any."""
    old = index["old"]
    changes: dict[int, tuple[float, float]] = {}
    for part in index["comparisons"]:
        left_out = set(part["left_out"])
        if part["old"] != old:
            continue
        for place, task in enumerate(index["tasks"]):
            before, after = ((task["sides"][at] or {}).get("score") for at in (old, part["new"]))
            if place not in left_out and before is not None and after is not None:
                least, most = changes.get(place, (inf, -inf))
                changes[place] = min(least, after - before), max(most, after - before)
    return changes


def _count_tasks(index: Fields, places: Iterable[int]) -> int:
    """Count tasks by their rows: a task that several models tried may have a row for each of them."""
    rows = [index["tasks"][place] for place in places]
    several = any(suite["who"] for suite in index["suites"])
    return (
        len({(index["suites"][row["suite"]]["suite"], row["task"]) for row in rows}) if several else len(rows)
    )


_PARTS = "text data select charts pictures trial difference beside find head list table app"
SCRIPTS = ("vendor/preact-htm.js", *(f"{part}.js" for part in _PARTS.split()))
"""Scripts of the page, in the order in which they are one: each uses what stands before it."""

STYLES = ("kit.css", "page.css", "beside.css", "pictures.css")

LIVE_SCRIPTS = (*SCRIPTS[:-1], "served/ask.js", "served/pace.js", "served/live.js", SCRIPTS[-1])
"""Scripts of a page behind which a server stands, of which one asks it; the others ask for nothing."""


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
    boards = leaderboards_of(source.all_runs, source.scorecards)
    # The index, which stands above the chunks, holds their places: chunks are written first, into a file
    # without a name, as a run may be larger than memory.
    with tempfile.TemporaryFile() as chunks:
        index["left_out"] = _write_chunks(chunks, index["trials"], trials)
        chunks.seek(0)
        text = page_html(index, boards)
        with replacing(path) as beside, beside.open("wb") as file:
            file.write(text.encode(errors="backslashreplace"))
            shutil.copyfileobj(chunks, file)
            file.write(b"</body>\n</html>\n")


def report_index(source: ReportSource) -> tuple[Fields, list[IndexedTrial]]:
    """Give the index of a report with who beats whom, and its trials in the order in which it has them."""
    index, trials = page_index(source)
    verdicts = verdict_sentences(source.sides) if len(source.sides) > 2 else []
    return {**index, "verdicts": verdicts}, trials


def page_html(index: Fields, boards: Sequence[Leaderboard]) -> str:
    """Give the page of an index up to its transcripts."""
    script = script_of(LIVE_SCRIPTS if index["live"] else SCRIPTS)
    style = "".join(map(page_file, STYLES))
    template = page_environment().get_template("report.html.jinja")
    return template.render(
        index=index,
        filters=row_filters(index),
        boards=[table for board in boards for table in _tables(board)],
        figure=format_figure,
        ends=format_ends,
        style=style + page_file("served/head.css") + page_file("served/live.css") if index["live"] else style,
        script=script,
        policy=page_policy(script, may_ask=bool(index["live"])),
        # HTML looks for `</script` and `<!--` in a script of any type; JSON has an escape for `<`.
        index_json=index_json(index).decode().replace("<", "\\u003c"),
    )


@cache
def script_of(names: Sequence[str]) -> str:
    """Give scripts as one, in a function around all of them: nothing outside can see into it."""
    parts = "\n".join(map(page_file, names)).replace("</script", "<\\/script")
    return f"(() => {{\n{parts}\n}})();"


def page_policy(script: str, *, may_ask: bool) -> str:
    """Give the Content-Security-Policy of a page: it runs this one script, and ``may_ask`` its own server."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    asking = "connect-src 'self'; " if may_ask else ""
    allowed = f"script-src 'sha256-{digest}'; {asking}style-src 'unsafe-inline'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def index_json(index: Fields) -> bytes:
    """Write an index as the page reads it: without secrets, its rows as columns."""
    return page_json(KNOWN_SECRETS.value(packed_index(index)))


def trial_json(trial: Trial) -> bytes:
    """Write a trial as the page reads it, without secrets."""
    view = msgspec.to_builtins(trial_view(trial), enc_hook=encoder_fallback)
    return page_json(KNOWN_SECRETS.value(view))


MOST_TEXT = 200_000
"""Characters of one text."""

LARGEST = 2**53 - 1
"""The largest whole number that browsers tell from its neighbours."""


def page_json(data: object) -> bytes:
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


def _write_chunks(file: IO[bytes], rows: Sequence[Fields], trials: Sequence[IndexedTrial]) -> str:
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
        waiting.append(trial_json(record))
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

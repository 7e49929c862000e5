"""One HTML file of a run, or of two beside each other: it opens from disk and asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import RunComparison
from pytest_agenteval.processes.files import replace_file
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.reports.comparison_report import comparison_lines
from pytest_agenteval.reports.html_index import (
    TrialReference,
    TrialRow,
    index_json,
    page_json,
    report_index,
    row_filters,
    select_worst_tasks,
)
from pytest_agenteval.reports.leaderboard import (
    Leaderboard,
    LeaderboardRow,
    leaderboard_tables,
    leaderboards_of,
    scorecard_tables,
)
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.tables import ReportTable
from pytest_agenteval.reports.trial_view import judges_disagree, trial_view
from pytest_agenteval.text.formatting import format_ends, format_figure, pluralize, printable
from pytest_agenteval.text.json_values import encoder_fallback
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def page_environment() -> Environment:
    """Give the templates of all pages; a value that a template lacks is an error."""
    # Collecting tests must not load jinja2, and few runs write a page.
    from jinja2 import DictLoader, Environment, StrictUndefined

    folder = files("pytest_agenteval").joinpath("reports/html/templates")
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()}
    return Environment(
        loader=DictLoader(texts),
        autoescape=True,
        finalize=_written_out,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _written_out(value: Any) -> Any:
    # Escapes characters that turn the writing direction or cannot be seen. What a template marks as safe,
    # such as a script, is of another type than str and stays as it is.
    return printable(value) if type(value) is str else value


def page_file(name: str) -> str:
    return files("pytest_agenteval").joinpath(f"reports/html/page/{name}").read_text(encoding="utf-8")


WHOLE = 3
"""Rows of a board that are about the suite as a whole, above its buckets."""


class BoardDot(FrozenValue, frozen=True):
    """A figure with its interval, in percents of the way from 0 to 1; None where there is none."""

    at: float
    low: float | None
    high: float | None


class BoardColumn(FrozenValue, frozen=True):
    """A column: its title and a cell for each row, shaded by its score in percent where it has one."""

    title: str
    cells: tuple[str, ...]
    shades: tuple[float | None, ...] = ()


class BoardTable(FrozenValue, frozen=True):
    """A ``ReportTable`` as a page shows it, with a dot for each row where these are ordered by one figure."""

    title: str
    head: str
    names: tuple[str, ...]
    columns: tuple[BoardColumn, ...]
    notes: tuple[str, ...]
    caveats: tuple[str, ...]
    dots: tuple[BoardDot | None, ...] = ()


def _tables(board: Leaderboard) -> Iterator[BoardTable]:
    if len(board.standings) == 1:
        for standing in board.standings:
            if standing.scorecard:
                yield from map(_board, scorecard_tables(standing, standing.scorecard))
        return
    first, *others = map(_board, leaderboard_tables(board))
    # A row of a board with a scorecard is a model with one total: a dot. Else its columns are models, and its
    # rows buckets whose cells are shaded.
    if board.has_scorecard:
        yield replace(first, dots=tuple(map(_dot, board.standings)))
    else:
        yield replace(first, columns=tuple(_shaded(first, board)))
    yield from others


def _shaded(table: BoardTable, board: Leaderboard) -> Iterator[BoardColumn]:
    """Shade the cells of each standing's column by the scores of its buckets."""
    for column, standing in zip(table.columns, board.standings, strict=True):
        means = {bucket.name: bucket.mean for bucket in standing.view.rows}
        shades = (_percent(mean.mean) if (mean := means.get(name)) else None for name in table.names[WHOLE:])
        yield replace(column, shades=(*[None] * WHOLE, *shades))


def _board(table: ReportTable) -> BoardTable:
    return BoardTable(
        title=table.title,
        head=table.head,
        names=table.names,
        columns=tuple(BoardColumn(column.title, column.cells) for column in table.columns),
        notes=tuple(note.text for note in table.notes),
        caveats=table.caveats,
    )


def _dot(standing: LeaderboardRow) -> BoardDot | None:
    if standing.value is None:
        return None
    interval = (standing.total or standing.view.total).interval
    if interval is None:
        return BoardDot(_percent(standing.value), None, None)
    return BoardDot(_percent(standing.value), _percent(interval.low), _percent(interval.high))


def _percent(value: float) -> float:
    return round(100 * min(1.0, max(0.0, value)), 2)


MOST_TRIALS = 10
MOST_BYTES = 256 * 1024
"""Bytes of JSON from which on a chunk is full: one is decoded in some hundredths of a second."""

MOST_IN_FILE = 100_000_000
"""Bytes of chunks from which on trials that passed are left out: browsers open larger files, but slowly."""

MOST_TEXT = 200_000
"""Characters of one text."""

LARGEST = 2**53 - 1
"""The largest whole number that browsers tell from its neighbours."""

GZIP = 31
"""zlib's word for gzip, whose header is then without a date: the same run gives the same file."""


class ChunkWriter:
    """Writes trials as chunks: elements of compressed JSON, which the page decodes when a trial is opened."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._chunk = 0
        self.bytes = 0

    def add(self, document: bytes) -> tuple[int, int]:
        """Take a trial's JSON; gives its chunk, and its place in there."""
        if len(self._waiting) >= MOST_TRIALS or sum(map(len, self._waiting)) >= MOST_BYTES:
            self.flush()
        self._waiting.append(document)
        return self._chunk, len(self._waiting) - 1

    def flush(self) -> None:
        if self._waiting:
            data = b"[" + b",".join(self._waiting) + b"]"
            packer = zlib.compressobj(6, zlib.DEFLATED, GZIP)
            packed = base64.b64encode(packer.compress(data) + packer.flush())
            head = f'<script type="text/plain" class="chunk" id="c{self._chunk}">'.encode()
            self._file.write(head + packed + b"</script>\n")
            self.bytes += len(packed)
            self._waiting.clear()
            self._chunk += 1


def _write_chunks(
    file: IO[bytes], rows: list[TrialRow], sources: Sequence[TrialReference]
) -> tuple[list[TrialRow], str]:
    """Write the trials; gives the rows with their places, and a sentence where trials were left out.

    One transcript at a time is in memory, beside the chunk that is being filled.
    """
    writer = ChunkWriter(file)
    index_rows, left_out, unreadable = list(rows), 0, 0
    # Trials that did not pass come first: they stay in the file, however large it becomes.
    for at in sorted(range(len(rows)), key=lambda at: rows[at].ending == "passed"):
        source = sources[at]
        if source.run is None:
            continue
        trial = source.run.trial_if_readable(source.entry)
        if trial is None:
            unreadable += 1
            continue
        # Noted before a trial may be left out, as the filter for it counts every row.
        index_rows[at] = replace(rows[at], disagree=judges_disagree(trial.grades))
        if rows[at].ending == "passed" and writer.bytes >= MOST_IN_FILE:
            left_out += 1
            continue
        view = msgspec.to_builtins(trial_view(trial), enc_hook=encoder_fallback)
        chunk, place = writer.add(page_json(_bounded(KNOWN_SECRETS.value(view))))
        index_rows[at] = replace(index_rows[at], chunk=chunk, at=place)
    writer.flush()
    sentences = []
    if left_out:
        which = f"The transcripts of {pluralize(left_out, 'trial')} that passed are not in this file"
        sentences.append(f"{which}, which would be larger than 100 MB: agenteval show opens them.")
    if unreadable:
        sentences.append(f"The transcripts of {pluralize(unreadable, 'trial')} cannot be read.")
    return index_rows, " ".join(sentences)


def _bounded(value: Any) -> Any:
    # So that a reply of megabytes does not make the page unusable; both of its ends stay.
    if isinstance(value, str) and len(value) > MOST_TEXT:
        half = MOST_TEXT // 2
        left_out = f"{len(value) - 2 * half:,} characters are left out here: agenteval show --full"
        return f"{value[:half]}\n\n… {left_out} …\n\n{value[-half:]}"
    if isinstance(value, dict):
        return {key: _bounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_bounded(inner) for inner in value]
    # A browser reads larger numbers as the next one that it knows: an id of 64 bits would be another's.
    return str(value) if isinstance(value, int) and abs(value) > LARGEST else value


SCRIPTS = ("vendor/preact-htm.js", "text.js", "data.js", "charts.js", "trial.js", "list.js", "app.js")
"""Scripts of the page, in the order in which they are one: each uses what stands before it."""

WIDE = 110
"""Columns of what the comparison's screen says."""


def write_html(path: Path, source: ReportSource) -> None:
    """Write the page; an OSError leaves the file as it was."""
    index, trials, not_listed = select_worst_tasks(*report_index(source))
    # The index, which stands above the chunks, holds their places: chunks are written first, into a file
    # without a name, as a run may be larger than memory.
    with tempfile.TemporaryFile() as chunks:
        index_rows, left_out = _write_chunks(chunks, index.trials, trials)
        chunks.seek(0)
        whole = replace(index, trials=index_rows, left_out=f"{not_listed} {left_out}".strip())
        # One function around all parts: nothing outside of the script can see into it.
        parts = [page_file(name) for name in SCRIPTS]
        script = "(() => {\n" + "\n".join(parts).replace("</script", "<\\/script") + "\n})();"
        boards = leaderboards_of(source.all_runs, source.scorecards)
        tables = [table for board in boards for table in _tables(board)]
        data = KNOWN_SECRETS.value(msgspec.to_builtins(whole))
        page = page_environment().get_template("report.html.jinja")
        text = page.render(
            index=data,
            filters=row_filters(whole),
            lists_all=not not_listed,
            rests_on=_screen(source.comparison),
            boards=KNOWN_SECRETS.value(msgspec.to_builtins(tables)),
            figure=format_figure,
            ends=format_ends,
            style=page_file("kit.css") + page_file("page.css"),
            script=script,
            # The page's Content-Security-Policy allows this one script, by its digest, and no other.
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            index_json=index_json(data),
        )
        head = text.encode(errors="backslashreplace")
        # In the same folder: a file is replaced in one step only within one file system.
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with beside.open("wb") as file:
                file.write(head)
                shutil.copyfileobj(chunks, file)
                file.write(b"</body>\n</html>\n")
            replace_file(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def _screen(comparison: RunComparison | None) -> str:
    """Give the screen of a comparison without its headline, which the page has as its own."""
    if comparison is None:
        return ""
    lines = [KNOWN_SECRETS.text(line.text) for line in comparison_lines(comparison, WIDE, basis=True)]
    return "\n".join(lines[lines.index("") + 1 :] if "" in lines else lines)

"""One HTML file of a run, or of two beside each other: it opens from disk and asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.processes.files import replace_file
from pytest_agenteval.reports.comparison.screen import comparison_lines
from pytest_agenteval.reports.html.boards import board_tables
from pytest_agenteval.reports.html.chunks import write_chunks
from pytest_agenteval.reports.html.environment import page_environment, page_file
from pytest_agenteval.reports.html.index import ReportIndex, index_json, row_filters
from pytest_agenteval.reports.html.index_making import report_index
from pytest_agenteval.reports.html.worst_tasks import keep_worst
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.text.formatting import format_ends, format_figure
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

SCRIPTS = ("vendor/preact-htm.js", "text.js", "data.js", "charts.js", "trial.js", "list.js", "app.js")
"""Scripts of the page, in the order in which they are one: each uses what stands before it."""

WIDE = 110
"""Columns of what the comparison's screen says."""


def write_html(path: Path, source: ReportSource) -> None:
    """Write the page; an OSError leaves the file as it was.

    Transcripts go through a file without a name, one after the other, for a run may be larger than memory.
    """
    index, trials, not_listed = keep_worst(*report_index(source))
    with tempfile.TemporaryFile() as chunks:
        index_rows, left_out = write_chunks(chunks, index.trials, trials)
        chunks.seek(0)
        whole = replace(index, trials=index_rows, left_out=f"{not_listed} {left_out}".strip())
        _replace_file(path, _before_chunks(whole, source, lists_all=not not_listed), chunks)


def _replace_file(path: Path, head: bytes, chunks: IO[bytes]) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(head)
            shutil.copyfileobj(chunks, file)
            file.write(b"</body>\n</html>\n")
        replace_file(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _before_chunks(index: ReportIndex, source: ReportSource, *, lists_all: bool = True) -> bytes:
    """Give everything above the chunks: what is seen at once, the index, the script."""
    script, boards = page_script(), KNOWN_SECRETS.value(msgspec.to_builtins(board_tables(source)))
    data = KNOWN_SECRETS.value(msgspec.to_builtins(index))
    page = page_environment().get_template("report.html.jinja")
    text = page.render(
        index=data,
        filters=row_filters(index),
        lists_all=lists_all,
        rests_on=_screen(source.comparison),
        boards=boards,
        figure=format_figure,
        ends=format_ends,
        style=page_file("kit.css") + page_file("page.css"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        index_json=index_json(data),
    )
    return text.encode(errors="backslashreplace")


def _screen(comparison: Comparison | None) -> str:
    """Give what the verdict rests on as a terminal shows it, without the verdict."""
    if comparison is None:
        return ""
    lines = [KNOWN_SECRETS.text(line.text) for line in comparison_lines(comparison, WIDE, basis=True)]
    return "\n".join(lines[lines.index("") + 1 :] if "" in lines else lines)


def page_script() -> str:
    """Give the page's one script, which nothing outside of it can see."""
    parts = [page_file(name) for name in SCRIPTS]
    return "(() => {\n" + "\n".join(parts).replace("</script", "<\\/script") + "\n})();"

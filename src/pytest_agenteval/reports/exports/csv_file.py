"""Rows as CSV (RFC 4180) in UTF-8, which a spreadsheet can open without acting on what an agent wrote."""

from __future__ import annotations

import csv
import re
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_agenteval.reports.exports.export_files import clean_rows, export_file
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.store.rows.columns import Column
from pytest_agenteval.store.rows.row_kinds import row_kind
from pytest_agenteval.text.canonical import compact

# What spreadsheets take for the beginning of a formula (OWASP, "CSV Injection"), in full width too. A text
# that has apostrophes before it gets one more: whoever takes one away has the text again, whatever it was.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")


def write_csv(path: Path, source: ReportSource) -> None:
    """Write the rows of all runs, of the kind that is asked for, below one line with their columns' names.

    No value is an empty cell, true and false are words, times are ISO 8601 in UTC, lists are JSON. A text at
    which a spreadsheet would begin to calculate has an apostrophe before it. Raises UsageMistake where the
    file cannot be written, and for rows that there are not.
    """
    kind = row_kind(source.rows)
    with export_file(path) as place, place.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow([column.name for column in kind.columns])
        for row in clean_rows(kind, source.all_runs):
            lines.writerow(map(_cell, kind.columns, row))


def _cell(column: Column, value: Any) -> Any:
    if value is None:
        return ""
    if column.type == "text":
        return spreadsheet_text(value)
    if column.type == "flag":
        return "true" if value else "false"
    if column.type == "texts":
        return compact(value)
    return value.isoformat() if isinstance(value, datetime) else value


def spreadsheet_text(text: str) -> str:
    """Give a text so that spreadsheets show it and do not calculate: with an apostrophe where one is due."""
    text = text.replace("\0", "\\x00")  # at which many readers take a text for ended
    return f"'{text}" if _FORMULA.match(text) else text

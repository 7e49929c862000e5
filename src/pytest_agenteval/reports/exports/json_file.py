"""Everything that reports say of runs, as one JSON document whose schema is published."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_agenteval.reports.comparison.documents import comparison_json
from pytest_agenteval.reports.exports.export_files import export_file
from pytest_agenteval.reports.exports.report_schema import FORMAT
from pytest_agenteval.reports.leaderboard.standings import leaderboards_json, leaderboards_of
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.view import view_of
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.rows.columns import Column
from pytest_agenteval.store.rows.trial_columns import OWN_GRADE_COLUMNS, TRIALS, TrialSource
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.json_form import jsonable
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS


def write_json(path: Path, source: ReportSource) -> None:
    """Write runs as the document that ``agenteval schema report`` describes, one trial on a line.

    Raises UsageMistake where the file cannot be written.
    """
    # backslashreplace: half a surrogate pair, which UTF-8 does not know, becomes its JSON escape.
    with (
        export_file(path) as place,
        place.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file,
    ):
        file.writelines(report_json(source))


def report_json(source: ReportSource) -> Iterator[str]:
    """Give the document piece by piece: a run of many trials is never in memory twice."""
    runs, comparison = source.all_runs, source.comparison
    boards = leaderboards_json(leaderboards_of(runs, source.scorecards))
    yield f'{{\n"v": {FORMAT},\n"runs": {_text([_run(run) for run in runs])},\n'
    yield f'"weights": {_text(boards["weights"])},\n"boards": {_text(boards["boards"])},\n'
    yield f'"comparison": {_text(comparison_json(comparison) if comparison else None)},\n"trials": ['
    yield from _trials(runs)
    yield "\n]\n}\n"


def _text(value: Any) -> str:
    """Write what may hold numbers that JSON does not know, such as infinity."""
    return _clean_text(jsonable(value))


def _clean_text(form: Any) -> str:
    text = json.dumps(form, ensure_ascii=False)
    if KNOWN_SECRETS.dirty(text):  # few are, and to look into every value takes five times as long
        text = json.dumps(KNOWN_SECRETS.value(form), ensure_ascii=False)
    return text


def _run(run: Run) -> dict[str, Any]:
    view = view_of(run)
    return {
        "name": run.name,
        "folder": str(run.folder),
        "header": run.header.to_json(),
        "notes": list(view.notes),
        "warnings": list(view.warnings),
        "unreadable": list(run.odd),
        "never_ended": run.never_ended,
    }


def _trials(runs: Sequence[Run]) -> Iterator[str]:
    between = "\n"
    for run in runs:
        for entry in run.entries:
            yield f"{between}{_clean_text(_trial(run, entry))}"
            between = ",\n"


def _trial(run: Run, entry: JournalEntry) -> dict[str, Any]:
    grades = [TrialSource(run.name, entry, grade, place) for place, grade in enumerate(entry.grades, 1)]
    own = [_values(OWN_GRADE_COLUMNS, grade) for grade in grades]
    return {**_values(TRIALS, TrialSource(run.name, entry)), "grades": own}


def _values(columns: Sequence[Column], source: TrialSource) -> dict[str, Any]:
    values = {column.name: column.of(source) for column in columns}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()
    }

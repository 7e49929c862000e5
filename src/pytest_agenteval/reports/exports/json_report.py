"""Everything that reports say of runs, as one JSON document, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pytest_agenteval.compare.comparison import RunComparison
from pytest_agenteval.compare.pairing import compared_run
from pytest_agenteval.reports.causes import cause_json, causes_of
from pytest_agenteval.reports.comparison_report import FORMAT as COMPARISON_FORMAT
from pytest_agenteval.reports.comparison_report import comparison_json
from pytest_agenteval.reports.exports.document_text import clean_json, type_definitions
from pytest_agenteval.reports.exports.row_files import export_file
from pytest_agenteval.reports.leaderboard import Leaderboard, leaderboards_json, leaderboards_of
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.sides_report import comparisons_json, sides_json
from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.rows import OWN_GRADE_COLUMNS, TRIALS, Column, ColumnType, TrialSource
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.store.run_schemas import (
    COUNT,
    COUNT_OR_NULL,
    FLAG,
    HEADER,
    NUMBER,
    TEXT,
    Schema,
    list_schema,
    map_schema,
    object_schema,
    published,
)
from pytest_agenteval.text.json_values import jsonable

FORMAT = 1
"""Counts what readers of an earlier document would trip over; what is only added leaves it as it is."""

_OPTIONAL_NUMBER: Schema = {"type": ["number", "null"]}
_COUNTS = map_schema(COUNT)
_SPENT = {"tokens": COUNT_OR_NULL, "tokens_untold": COUNT, "cost_usd": _OPTIONAL_NUMBER, "unpriced": COUNT}
_SPENT |= {"seconds": _OPTIONAL_NUMBER, "untimed": COUNT}
_TOOK = _SPENT | {
    "wall_seconds": _OPTIONAL_NUMBER,
    "wall_untimed": COUNT,
    "turns": {**COUNT, "description": "replies of models whose time is known"},
    "turns_untimed": {**COUNT, "description": "trials with replies whose time is not known"},
    **dict.fromkeys(("turn_p50", "turn_p95"), _OPTIONAL_NUMBER),
}
_TAPE = object_schema({"hits": COUNT, "misses": COUNT, "recorded": COUNT}, {})
_FIGURES = object_schema(
    dict.fromkeys(("score", "low", "high"), _OPTIONAL_NUMBER)
    | dict.fromkeys(("tasks", "planned", "averaged", "errored", "not_run", "without_judge", "k"), COUNT)
    | dict.fromkeys(("pass_1", "pass_at_k", "pass_hat_k", "full"), _OPTIONAL_NUMBER)
    | {"tasks_passed": COUNT, "tasks_decided": COUNT, "unproven": COUNT, "retried": COUNT}
    | {"errored_by_cause": _COUNTS, "limits_reached": _COUNTS, "undecided": _COUNTS}
    | {"spent": object_schema(_TOOK, {}), "judging": object_schema({**_SPENT, "replies": COUNT}, {})}
    | {"tool_tape": _TAPE, "chat_tape": _TAPE},
    {},
    "the figures of a suite with one model, or of one of its buckets, as `agenteval report` has them",
)
_DECISIONS = object_schema(
    dict.fromkeys(("precision", "recall", "f1", "accuracy"), _OPTIONAL_NUMBER)
    | dict.fromkeys(("true_positives", "false_positives", "false_negatives", "true_negatives"), COUNT)
    | {"unknown": COUNT, "errored": COUNT},
    {},
    "whether agents acted where they should",
)
_BENCHMARKS: Schema = {"description": "what a benchmark makes of its grades", "type": "object"}
_ROW = object_schema(
    {"run": TEXT, "path": TEXT, "model": TEXT, "variant": TEXT, "note": TEXT, "all": _FIGURES}
    | {"buckets": map_schema(_FIGURES)},
    {"decisions": _DECISIONS, "composite": _BENCHMARKS, "levels": _BENCHMARKS, "notes": list_schema(TEXT)},
    "a suite with one model and variant in one run",
)
_BOARD = object_schema(
    {"suite": TEXT, "levels": FLAG, "graded_differently": COUNT, "rows": list_schema(_ROW)},
    {},
    "a suite in all runs, the best row first",
)
_RUN = object_schema(
    {"name": TEXT, "folder": TEXT, "header": {name: HEADER[name] for name in HEADER if name[0] != "$"}}
    | {"notes": list_schema(TEXT), "warnings": list_schema(TEXT), "unreadable": list_schema(TEXT)}
    | {"never_ended": {**TEXT, "description": "how many planned trials have no ending, in words"}},
    {},
)
_TYPES: Mapping[ColumnType, Schema] = {
    "text": TEXT,
    "texts": list_schema(TEXT),
    "json": TEXT,
    "integer": {"type": "integer"},
    "number": NUMBER,
    "flag": FLAG,
    "time": {**TEXT, "format": "date-time"},
}


_SIDE_FIGURES = object_schema(
    {"name": TEXT, "mark": TEXT}
    | dict.fromkeys(("tasks", "trials", "planned", "errored", "not_run"), COUNT)
    | dict.fromkeys(("tasks_passed", "tasks_decided", "tokens_unknown", "usd_unknown"), COUNT)
    | dict.fromkeys(("seconds_unknown", "wall_unknown", "turns", "turns_unknown"), COUNT)
    | dict.fromkeys(("score", "low", "high", "passed", "tokens", "usd"), _OPTIONAL_NUMBER)
    | dict.fromkeys(("seconds", "wall", "p50", "p95"), _OPTIONAL_NUMBER),
    {},
    "the figures of all trials of a side; a score only of a side with one suite. p50 and p95 are seconds of "
    "a model's turn",
)
_GROUP = object_schema({"suite": TEXT, "model": TEXT, "variant": TEXT}, {})
_SIDE = object_schema(
    {"label": TEXT, "name": TEXT, "run": TEXT, "path": TEXT, "groups": list_schema(_GROUP)}
    | {"figures": _SIDE_FIGURES},
    {},
    "what is put beside the others: a run, a model, a variant or a baseline, whose run is empty",
)


_WORST = object_schema(
    {"side": COUNT, "trial": TEXT, "score": _OPTIONAL_NUMBER}, {}, "its side, by its place in `sides`"
)
_CAUSE = object_schema(
    {"words": {**TEXT, "description": "all of it in one line"}, "kind": {"enum": ["missed", "errored"]}}
    | {"grader": {**TEXT, "description": "its label; empty for errors and limits"}}
    | {"check": {**TEXT, "description": "the claim that did not hold; empty where there is a rationale only"}}
    | {"reason": {**TEXT, "description": "… stands for values that are not the same in all trials"}}
    | {"trials": COUNT, "tasks": COUNT, "sides": {**list_schema(COUNT), "description": "trials of each side"}}
    | {"traceback": TEXT, "worst": _WORST},
    {},
    "why trials did not pass, the cause of most trials first; a trial may have several causes",
)
_TOTAL = object_schema(
    {"run": TEXT, "path": TEXT, **_TOOK},
    {},
    "what all trials of a run took; its wall time is that in which pytest worked on it",
)


def _pair(comparison: Schema) -> Schema:
    sides = {"old_side": COUNT, "new_side": COUNT}
    return object_schema({**sides, "comparison": comparison}, {}, "two sides, by their place in `sides`")


def report_schema() -> Schema:
    """Give the schema of a report's file in JSON, and of its figures alone, which ``--json`` writes."""
    comparison, definitions = _comparison()
    grade = object_schema(_columns(OWN_GRADE_COLUMNS), {}, "a grade; see docs/reference/data.md")
    columns = {**_columns(TRIALS), "grades": list_schema(grade)}
    trial = object_schema(columns, {}, "a trial; see docs/reference/data.md")
    figures = {"v": {"const": FORMAT}, "weights": map_schema(NUMBER), "boards": list_schema(_BOARD)}
    figures |= {"totals": list_schema(_TOTAL), "sides": list_schema(_SIDE)}
    figures |= {"comparisons": list_schema(_pair(comparison)), "causes": list_schema(_CAUSE)}
    file = {"runs": list_schema(_RUN), "comparison": {"anyOf": [comparison, {"type": "null"}]}}
    file |= {"trials": list_schema(trial)}
    either = [
        object_schema({**figures, **file}, {}, "agenteval report RUN -o FILE.json"),
        object_schema(figures, {}, "agenteval report RUN --json FILE"),
    ]
    head = {"$id": f"urn:pytest-agenteval:report:{FORMAT}"}
    whole = {**head, "type": "object", "properties": {"v": figures["v"]}, "oneOf": either}
    return published("a report of runs in JSON", {**whole, "$defs": definitions})


def comparison_schema() -> Schema:
    comparison, definitions = _comparison()
    head = {"$id": f"urn:pytest-agenteval:compare:{COMPARISON_FORMAT}"}
    return published("agenteval compare --json", {**head, **comparison, "$defs": definitions})


def _columns(columns: Iterable[Column]) -> dict[str, Schema]:
    described: dict[str, Schema] = {}
    for column in columns:
        schema = {"description": column.meaning, **_TYPES[column.type]}
        described[column.name] = {**schema, "type": [schema["type"], "null"]} if column.optional else schema
    return described


def _comparison() -> tuple[Schema, dict[str, Schema]]:
    """Give the schema of a comparison, and the definitions that it refers to."""
    # The published name of the type is older than that of its class.
    published_names = {RunComparison.__name__: "Comparison"}
    definitions = {published_names.get(k, k): v for k, v in type_definitions(RunComparison).items()}
    own = definitions["Comparison"]
    # Written flat, as in all other documents.
    took = "what all trials of a side took; seconds of a turn of a model are quantiles, as `report` has them"
    definitions["ResourceFigures"] = object_schema(_TOOK, {}, took)
    del definitions["Figure"], definitions["TurnTimes"]
    own["properties"] = {"v": {"const": COMPARISON_FORMAT}, "headline": TEXT, **own["properties"]}
    own["required"] = ["v", "headline", *own["required"]]
    return {"$ref": "#/$defs/Comparison"}, definitions


def write_json(path: Path, source: ReportSource) -> None:
    """Write runs as the document that ``agenteval schema report`` describes, one trial on a line.

    Raises UsageMistake where the file cannot be written.
    """
    # backslashreplace: half a surrogate pair, which UTF-8 does not know, becomes its JSON escape.
    with (
        export_file(path) as place,
        place.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file,
    ):
        file.writelines(_report_json(source))


def report_figures(source: ReportSource, boards: Sequence[Leaderboard]) -> dict[str, Any]:
    """Give what ``agenteval report --json`` writes: figures of suites, of sides, and how sides compare."""
    totals = [
        {"run": run.name, "path": str(run.folder), **compared_run(run).resources.to_json()}
        for run in source.all_runs
    ]
    sides = {"sides": sides_json(source.sides), "comparisons": comparisons_json(source.sides)}
    causes = map(cause_json, causes_of([side.entries for side in source.sides.sides]))
    return {**leaderboards_json(boards), "totals": totals, **sides, "causes": list(causes)}


def _report_json(source: ReportSource) -> Iterator[str]:
    """Give the document piece by piece, so that a run of many trials is not in memory twice."""
    runs, comparison = source.all_runs, source.comparison
    figures = report_figures(source, leaderboards_of(runs, source.scorecards, source.sides))
    yield f'{{\n"v": {figures.pop("v")},\n"runs": {_text([_run(run) for run in runs])},\n'
    yield from (f'"{name}": {_text(value)},\n' for name, value in figures.items())
    yield f'"comparison": {_text(comparison_json(comparison) if comparison else None)},\n"trials": ['
    between = "\n"
    for run in runs:
        for entry in run.entries:
            yield f"{between}{clean_json(_trial(run, entry))}"
            between = ",\n"
    yield "\n]\n}\n"


def _text(value: Any) -> str:
    """Write a value that may hold numbers which JSON does not have, such as infinity."""
    return clean_json(jsonable(value))


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


def _trial(run: Run, entry: JournalEntry) -> dict[str, Any]:
    grades = [TrialSource(run.name, entry, grade, place) for place, grade in enumerate(entry.grades, 1)]
    own = [_values(OWN_GRADE_COLUMNS, grade) for grade in grades]
    return {**_values(TRIALS, TrialSource(run.name, entry)), "grades": own}


def _values(columns: Sequence[Column], source: TrialSource) -> dict[str, Any]:
    values = ((column.name, column.of(source)) for column in columns)
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values}

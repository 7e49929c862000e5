"""The JSON Schema of a report in JSON, for those who read it without this package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.reports.comparison.documents import FORMAT as COMPARISON_FORMAT
from pytest_agenteval.reports.exports.document_text import type_definitions
from pytest_agenteval.store.rows.columns import Column, ColumnType
from pytest_agenteval.store.rows.trial_columns import OWN_GRADE_COLUMNS, TRIALS
from pytest_agenteval.store.run_schemas import (
    COUNT,
    FLAG,
    HEADER,
    NUMBER,
    TEXT,
    Schema,
    list_schema,
    object_schema,
    published,
)

FORMAT = 1
"""Counts what readers of an earlier document would trip over; what is only added leaves it as it is."""

_OPTIONAL_NUMBER: Schema = {"type": ["number", "null"]}
_COUNTS: Schema = {"type": "object", "additionalProperties": COUNT}
_SPENT = {
    "tokens": {**COUNT, "type": ["integer", "null"]},
    "tokens_untold": COUNT,
    "cost_usd": _OPTIONAL_NUMBER,
    "unpriced": COUNT,
} | {"seconds": _OPTIONAL_NUMBER, "untimed": COUNT}
_TAPE = object_schema({"hits": COUNT, "misses": COUNT, "recorded": COUNT}, {})
_FIGURES = object_schema(
    {"score": _OPTIONAL_NUMBER, "low": _OPTIONAL_NUMBER, "high": _OPTIONAL_NUMBER}
    | dict.fromkeys(("tasks", "planned", "averaged", "errored", "not_run", "without_judge", "k"), COUNT)
    | dict.fromkeys(("pass_1", "pass_at_k", "pass_hat_k", "full"), _OPTIONAL_NUMBER)
    | {"tasks_passed": COUNT, "tasks_decided": COUNT, "unproven": COUNT, "retried": COUNT}
    | {"errored_by_cause": _COUNTS, "limits_reached": _COUNTS, "undecided": _COUNTS}
    | {"spent": object_schema(_SPENT, {}), "judging": object_schema({**_SPENT, "replies": COUNT}, {})}
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
    | {"buckets": {"type": "object", "additionalProperties": _FIGURES}},
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


def report_schema() -> Schema:
    """Give the schema of a report's file in JSON, and of its figures alone, as ``--json`` writes them."""
    comparison, definitions = _comparison()
    grades = list_schema(object_schema(_columns(OWN_GRADE_COLUMNS), {}, "a grade; see docs/data.md"))
    trial = object_schema({**_columns(TRIALS), "grades": grades}, {}, "a trial; see docs/data.md")
    weights: Schema = {"type": "object", "additionalProperties": NUMBER}
    figures = {"v": {"const": FORMAT}, "weights": weights, "boards": list_schema(_BOARD)}
    file = {
        "runs": list_schema(_RUN),
        "comparison": {"anyOf": [comparison, {"type": "null"}]},
        "trials": list_schema(trial),
    }
    either = [
        object_schema({**figures, **file}, {}, "agenteval report RUN -o FILE.json"),
        object_schema(figures, {}, "agenteval report RUN --json FILE"),
    ]
    head = {"$id": f"urn:pytest-agenteval:report:{FORMAT}"}
    whole = {**head, "type": "object", "properties": {"v": figures["v"]}, "oneOf": either}
    return published("a report of runs in JSON", {**whole, "$defs": definitions})


def comparison_schema() -> Schema:
    """Give the schema of a comparison in JSON."""
    comparison, definitions = _comparison()
    head = {"$id": f"urn:pytest-agenteval:compare:{COMPARISON_FORMAT}"}
    return published("agenteval compare --json", {**head, **comparison, "$defs": definitions})


def _columns(columns: Iterable[Column]) -> dict[str, Schema]:
    return {column.name: {"description": column.meaning, **_type(column)} for column in columns}


def _type(column: Column) -> Schema:
    schema = _TYPES[column.type]
    return {**schema, "type": [schema["type"], "null"]} if column.optional else schema


def _comparison() -> tuple[Schema, dict[str, Schema]]:
    """Describe a comparison as its types do, and give the definitions that this refers to."""
    definitions = type_definitions(Comparison)
    own = definitions["Comparison"]
    own["properties"] = {"v": {"const": COMPARISON_FORMAT}, "headline": TEXT, **own["properties"]}
    own["required"] = ["v", "headline", *own["required"]]
    return {"$ref": "#/$defs/Comparison"}, definitions

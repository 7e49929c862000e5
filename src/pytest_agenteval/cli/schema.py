"""``agenteval schema``: the shapes of what is written and what is read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import msgspec

from pytest_agenteval.tasks.task_spec import LARGEST, SPELLINGS, Spec, TwoSpellings

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

RUN_FILES = ("run", "planned", "journal", "transcript", "text", "note")
"""What a run's folder holds; see ``store/run_schemas.py``."""

# Names and no imports: only the module of the requested schema is loaded.
DOCUMENTS: Mapping[str, str] = {
    "init": "cli.init:InitDocument",
    "validate": "cli.validate:ValidationDocument",
    "runs": "reports.run_list:RunListDocument",
    "show": "reports.trial_view:TrialsDocument",
    "import": "cli.init:ImportDocument",
    "report": "reports.exports.json_report:report_schema",
    "sql": "reports.exports.row_files:QueryDocument",
    "merge": "cli.merge:MergeDocument",
    "compare": "reports.exports.json_report:comparison_schema",
    "baseline": "reports.comparison_report:BaselineDocument",
    "gate-check": "cli.gate_check:GateCheckDocument",
    "trend": "reports.trend:TrendDocument",
    "calibrate": "calibration.document:CalibrateDocument",
    "review": "cli.review:ReviewSummary",
    "guide": "cli.project_files:GuidePage",
    "leaks": "loop.contamination:LeaksDocument",
    "promote": "loop.promotion:PromotionDocument",
    "demote": "loop.promotion:DemotionDocument",
    "feedback": "loop.feedback.content:Feedback",
    "improve": "loop.improve.progress:Improvement",
    "audit": "reports.audit_report:Audit",
}
"""What verbs write with ``--json``: a document's class, or a function that gives its schema."""


def schema_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        f"Print a JSON Schema: of a file that you write ({', '.join(AUTHORED)}), of a file in a run's folder "
        f"({', '.join(RUN_FILES)}), or of what a verb writes with --json. That of report also describes "
        "`agenteval report RUN -o FILE.json`."
    )
    names = ", ".join(SCHEMA_NAMES)
    parser.add_argument("what", choices=SCHEMA_NAMES, metavar="WHAT", help=f"one of {names}")


def schema(args: argparse.Namespace) -> int:
    print(json.dumps(schema_named(args.what), ensure_ascii=False, indent=2))
    return 0


# What authors write: what the file is, if its class does not say so itself, and that class.
AUTHORED: Mapping[str, tuple[str, str]] = {
    "task": ("A task of pytest-agenteval, or a list of tasks.", "tasks.task_spec:Task"),
    "suite": ("What the tasks below a folder have in common.", "tasks.suite_spec:Suite"),
    "promoted": (
        "What of the suite beside it has been promoted (_promoted.yaml).",
        "tasks.suite_spec:Regression",
    ),
    "calibration": ("How judges are compared with labels.", "calibration.calibration_file:Calibration"),
    "tools": ("", "tools.http_declaration:ToolFile"),
}

SCHEMA_NAMES = (*AUTHORED, *RUN_FILES, *DOCUMENTS)


def schema_named(what: str) -> Any:
    """Give the JSON Schema of this name."""
    if what in AUTHORED:
        return _file_schema(what)
    if what in RUN_FILES:
        from pytest_agenteval.store.run_schemas import SCHEMAS

        return SCHEMAS[what]
    described = _imported(DOCUMENTS[what])
    # A function makes the schema of documents that are no single class.
    if not isinstance(described, type):
        return described()
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema(what, described)


def _file_schema(what: str) -> dict[str, Any]:
    description, place = AUTHORED[what]
    spec = _imported(place)
    one = {"$ref": f"#/$defs/{spec.__name__}"}
    head = {
        "$id": f"urn:pytest-agenteval:{what}:1",
        "title": f"pytest-agenteval {what} file",
        "description": description,
    }
    several = {"type": "array", "items": one, "minItems": 1}
    shape = {"anyOf": [one, several]} if what == "task" else one
    definitions = spec_definitions(spec)
    if what == "suite":
        for place in ("tasks.task_spec:Task", "tasks.suite_spec:Rows"):
            definitions |= spec_definitions(_imported(place))
        task = definitions["Task"]
        # In a suite's file a task without an id has the first words of its input as one.
        required = [key for key in task["required"] if key != "id"]
        definitions["TaskOfSuite"] = {**task, "title": "TaskOfSuite", "required": required}
        definitions = dict(sorted((name, each) for name, each in definitions.items() if name != "Task"))
    return {"$schema": _DRAFT, **(head if description else {}), **shape, "$defs": definitions}


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"pytest_agenteval.{module}"), name)


def spec_definitions(kind: type[Spec]) -> dict[str, Any]:
    """Give the schema of a kind of spec and of each that it holds, by their names."""
    _, definitions = msgspec.json.schema_components([kind])
    kinds = {each.__name__: each for each in _all_specs(Spec)}
    for name, definition in definitions.items():
        _finish(definition)
        if issubclass(kinds[name], TwoSpellings):
            properties = definition["properties"]
            both = {theirs: properties[ours] for theirs, ours in SPELLINGS.items() if ours in properties}
            properties.update(both)
    return dict(sorted(definitions.items()))


def _all_specs(kind: type[Spec]) -> list[type[Spec]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _all_specs(below))]


def _finish(shape: Any) -> None:
    """Write patterns as JSON Schema does, and leave out what says nothing."""
    if isinstance(shape, list):
        for each in shape:
            _finish(each)
        return
    if not isinstance(shape, dict):
        return
    if isinstance(shape.get("pattern"), str):
        # There, $ is the end of the text and nothing else.
        shape["pattern"] = shape["pattern"].replace(r"\Z", "$")
    # Bounds that only exclude infinity.
    for name, bound in (("maximum", LARGEST), ("minimum", -LARGEST)):
        if shape.get(name) == bound:
            del shape[name]
    if shape.get("default") == {}:
        del shape["default"]
    for part in shape.values():
        _finish(part)

"""``agenteval schema``: the shapes of what is written and what is read."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from pytest_agenteval.tasks.authored_schemas import spec_definitions

_DRAFT = "https://json-schema.org/draft/2020-12/schema"

RUN_FILES = ("run", "planned", "journal", "transcript", "text")
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
    "review": "loop.review:ReviewSummary",
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
        f"Print a JSON Schema: of what authors write ({', '.join(AUTHORED)}), of what a run's folder holds "
        f"({', '.join(RUN_FILES)}), or of what a verb writes with --json. That of report is also of the file "
        "that `agenteval report RUN -o FILE.json` writes."
    )
    names = ", ".join(SCHEMA_NAMES)
    parser.add_argument("what", choices=SCHEMA_NAMES, metavar="WHAT", help=f"one of {names}")


def schema(args: argparse.Namespace) -> int:
    print(json.dumps(schema_named(args.what), ensure_ascii=False, indent=2))
    return 0


def schema_named(what: str) -> Any:
    if what in AUTHORED:
        return AUTHORED[what]()
    if what in RUN_FILES:
        from pytest_agenteval.store.run_schemas import SCHEMAS

        return SCHEMAS[what]
    module, _, name = DOCUMENTS[what].partition(":")
    described = getattr(import_module(f"pytest_agenteval.{module}"), name)
    # A function makes the schema of documents that are no single class.
    if not isinstance(described, type):
        return described()
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema(what, described)


def task_schema() -> dict[str, Any]:
    """Give the JSON Schema of a task file: one task, or a list of them."""
    from pytest_agenteval.tasks.task_spec import Task

    task = {"$ref": "#/$defs/Task"}
    several = {"type": "array", "items": task, "minItems": 1}
    return {
        **_schema_head("task", "A task of pytest-agenteval, or a list of tasks."),
        "anyOf": [task, several],
        "$defs": spec_definitions(Task),
    }


def suite_schema() -> dict[str, Any]:
    from pytest_agenteval.tasks.suite_spec import Suite

    return {
        **_schema_head("suite", "What the tasks below a folder have in common."),
        "$ref": "#/$defs/Suite",
        "$defs": spec_definitions(Suite),
    }


def _promoted_schema() -> dict[str, Any]:
    from pytest_agenteval.tasks.suite_spec import Regression

    return {
        **_schema_head("promoted", "What of the suite beside it has been promoted (_promoted.yaml)."),
        "$ref": "#/$defs/Regression",
        "$defs": spec_definitions(Regression),
    }


def _calibration_schema() -> dict[str, Any]:
    from pytest_agenteval.calibration.calibration_file import Calibration

    return {
        **_schema_head("calibration", "How judges are compared with labels."),
        "$ref": "#/$defs/Calibration",
        "$defs": spec_definitions(Calibration),
    }


def _tools_schema() -> dict[str, Any]:
    from pytest_agenteval.tools.http_declaration import ToolFile

    return {"$schema": _DRAFT, "$ref": "#/$defs/ToolFile", "$defs": spec_definitions(ToolFile)}


def _schema_head(name: str, description: str) -> dict[str, Any]:
    return {
        "$schema": _DRAFT,
        "$id": f"urn:pytest-agenteval:{name}:1",
        "title": f"pytest-agenteval {name} file",
        "description": description,
    }


AUTHORED: dict[str, Callable[[], dict[str, Any]]] = {
    "task": task_schema,
    "suite": suite_schema,
    "promoted": _promoted_schema,
    "calibration": _calibration_schema,
    "tools": _tools_schema,
}
"""What people write, and what makes the schema of each."""


SCHEMA_NAMES = (*AUTHORED, *RUN_FILES, *DOCUMENTS)

"""JSON Schemas of task, suite and calibration files, from the models that read them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from pytest_agenteval.tasks.calibration import Calibration
from pytest_agenteval.tasks.spec import Suite, Task

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def task_schema() -> dict[str, Any]:
    """Give the JSON Schema of a task file: one task, or a list of them."""
    one = {"$ref": "#/$defs/Task"}
    several = {"type": "array", "items": one, "minItems": 1}
    return {
        **_head("task", "A task of pytest-agenteval, or a list of tasks."),
        "anyOf": [one, several],
        "$defs": _definitions(Task),
    }


def suite_schema() -> dict[str, Any]:
    """Give the JSON Schema of a suite file."""
    return {
        **_head("suite", "What the tasks below a folder have in common."),
        "$ref": "#/$defs/Suite",
        "$defs": _definitions(Suite),
    }


def calibration_schema() -> dict[str, Any]:
    """Give the JSON Schema of a calibration file."""
    return {
        **_head("calibration", "How judges are compared with labels."),
        "$ref": "#/$defs/Calibration",
        "$defs": _definitions(Calibration),
    }


def _head(name: str, description: str) -> dict[str, Any]:
    return {
        "$schema": _DRAFT,
        "$id": f"urn:pytest-agenteval:{name}:1",
        "title": f"pytest-agenteval {name} file",
        "description": description,
    }


def _definitions(model: type[BaseModel]) -> dict[str, Any]:
    whole = model.model_json_schema()
    definitions = {**whole.pop("$defs", {}), model.__name__: whole}
    for definition in definitions.values():
        for shape in definition.get("properties", {}).values():
            shape.pop("title", None)  # pydantic's titles only repeat the key
    return dict(sorted(definitions.items()))


AUTHORED = {"task": task_schema, "suite": suite_schema, "calibration": calibration_schema}
"""What people write, and what makes the schema of each."""

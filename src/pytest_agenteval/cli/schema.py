"""``agenteval schema``: the shapes of what is written and what is read."""

from __future__ import annotations

import json
from typing import Any


def print_schema(what: str) -> int:
    """Print the JSON Schema of task or suite files, or of what a run's files or their lines hold."""
    print(json.dumps(_schema(what), ensure_ascii=False, indent=2))
    return 0


def _schema(what: str) -> Any:
    if what in ("task", "suite"):
        from pytest_agenteval.tasks.schema import suite_schema, task_schema

        return task_schema() if what == "task" else suite_schema()
    from pytest_agenteval.store.schema import SCHEMAS

    return SCHEMAS[what]

"""``agenteval schema``: the shapes of what is written and what is read."""

from __future__ import annotations

import json
from typing import Any

AUTHORED = ("task", "suite", "calibration")
"""What people write; the rest is what a run writes."""


def print_schema(what: str) -> int:
    """Print the JSON Schema of what authors write, or of what a run's files or their lines hold."""
    print(json.dumps(_schema(what), ensure_ascii=False, indent=2))
    return 0


def _schema(what: str) -> Any:
    if what == "tools":
        from pytest_agenteval.tools.http.declaration import ToolFile

        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ToolFile.model_json_schema()}
    if what in AUTHORED:
        from pytest_agenteval.tasks import file_schemas

        return file_schemas.AUTHORED[what]()
    from pytest_agenteval.store.run_schemas import SCHEMAS

    return SCHEMAS[what]

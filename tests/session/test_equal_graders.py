"""Tasks with the same graders share them: what is worked out of graders is worked out once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_agenteval import builtin
from pytest_agenteval.registry import Registry
from pytest_agenteval.session.planning import Planner


def _task(id: str, count: Any) -> dict[str, Any]:
    graders = [{"name": "answer_json", "config": {"values": {"count": count}}}]
    return {"id": id, "input": {"content": "Count."}, "graders": graders}


def test_tasks_share_graders_that_are_the_same(tmp_path: Path) -> None:
    """True is not 1 to a grader: what is equal to Python alone is not shared."""
    registry = Registry(lambda registry: None)
    builtin.pytest_agenteval_register(registry)
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([_task("a", 1), _task("b", 1), _task("c", True)]))
    planned = Planner(registry, tmp_path).tasks(file, named=True)
    first, second, third = (task.graders for task, _ in planned)
    assert first is second
    assert first[0].config["values"]["count"] is not True
    assert third[0].config["values"]["count"] is True

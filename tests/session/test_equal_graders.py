"""Tasks with the same graders share them: what is worked out of graders is worked out once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.registry import installed
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.session.planning.planner import Planner
from pytest_agenteval.text.errors import ProblemsFound
from pytest_agenteval.tools.toolsets import tool_of


def search_mail(text: str) -> str:
    """Search."""
    return text


def _task(id: str, count: Any) -> dict[str, Any]:
    graders = [{"name": "answer_json", "config": {"values": {"count": count}}}]
    return {"id": id, "input": {"content": "Count."}, "graders": graders}


def test_tasks_share_graders_that_are_the_same(tmp_path: Path) -> None:
    """True is not 1 to a grader: what is equal to Python alone is not shared."""
    registry = Registry(lambda registry: None)
    installed.pytest_agenteval_register(registry)
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([_task("a", 1), _task("b", 1), _task("c", True)]))
    planned = Planner(registry, tmp_path).tasks(file, named=True)
    first, second, third = (task.graders for task, _ in planned)
    assert first is second
    assert first[0].config["values"]["count"] is not True
    assert third[0].config["values"]["count"] is True


def test_a_misspelt_tool_is_told_though_it_was_taken_for_another_before(tmp_path: Path) -> None:
    """A conftest further down may register what a task of an earlier folder named, and nearly."""
    registry = Registry(lambda registry: None)
    installed.pytest_agenteval_register(registry)
    planner = Planner(registry, tmp_path)
    graders = [{"name": "tool_called", "config": {"tools": ["serch_mail"]}}]
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    for file in (first, second):
        file.write_text(json.dumps({"id": file.stem, "input": {"content": "Look."}, "graders": graders}))

    assert len(planner.tasks(first, named=True)) == 1
    registry.tool(tool_of(search_mail))
    with pytest.raises(ProblemsFound, match="search_mail"):
        planner.tasks(second, named=True)


def test_tasks_with_the_same_group_share_its_graders(tmp_path: Path) -> None:
    """A group is no grader, and nobody can ask it which tools it names."""
    registry = Registry(lambda registry: None)
    installed.pytest_agenteval_register(registry)
    registry.grader_group("both", [("answer_contains", "one"), ("answer_contains", "two")])
    graders = [{"name": "both", "config": {"text": "a"}}]
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([{"id": id, "input": {"content": "?"}, "graders": graders} for id in "ab"]))

    first, second = (task.graders for task, _ in Planner(registry, tmp_path).tasks(file, named=True))

    assert first is second
    assert [grader.label for grader in first] == ["one", "two"]

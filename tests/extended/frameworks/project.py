"""A project of a user's own: an agent, its tool, and two suites of tasks about the weather."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.extended.frameworks.weather_model import WEATHER, answer, question

BOTS = Path(__file__).with_name("bots")
COUNTER = Path(__file__).with_name("connect_counter.py")
LOOPING, LATE, PATIENT = "Oslo", "Cairo", "Lima"
SUITES = ("weather", "loops")
STEPS = 4
PYPROJECT = """
[tool.pytest.ini_options]
pythonpath = ["."]
[tool.agenteval.models]
claude = {id = "anthropic/claude-haiku-4-5", via = "direct"}
gpt = {id = "openai/gpt-weather", via = "direct"}
"""
"""With two models that answer in the place of an agent's own."""


def write_project(folder: Path, files: Mapping[str, str], suite: Mapping[str, Any], tool: str) -> None:
    """Write the agent's files and the suites; ``suite`` is what these say of the agent."""
    shutil.rmtree(folder, ignore_errors=True)
    write(folder, {"pyproject.toml": PYPROJECT, **files})
    write(folder / "evals", {f"{name}/suite.yaml": _suite(name, suite) for name in SUITES})
    write(folder / "evals", {"weather/tasks.json": json.dumps([_task(city, tool) for city in WEATHER])})
    write(folder / "evals", {"loops/tasks.json": json.dumps(_endless_tasks(tool))})
    write(folder / "site", {"sitecustomize.py": COUNTER.read_text(encoding="utf-8")})


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def _suite(name: str, suite: Mapping[str, Any]) -> str:
    return json.dumps({"name": name, "kind": "regression", "model": "own", **suite})


def _task(city: str, tool: str) -> dict[str, Any]:
    return {
        "id": city.lower(),
        "input": {"content": question(city, city.lower())},
        "graders": [
            {"name": "answer_contains", "config": {"text": answer(city)}},
            {"name": "tool_called", "config": {"tools": [tool]}},
        ],
    }


def _endless_tasks(tool: str) -> list[dict[str, Any]]:
    """Give one that has so many steps, one that has so many seconds, and one that is at work after both.

    They are tried one after the other: whatever a framework imports at its first ask, the first has done.
    """
    graders = [{"name": "tool_called", "config": {"tools": [tool]}}]
    steps = {"content": question(LOOPING, "steps", loop=1)}
    late = {"content": question(LATE, "late", loop=1, delay=1.0)}
    patient = {"content": question(PATIENT, "patient", delay=1.5)}
    return [
        {"id": "steps", "input": steps, "limits": {"steps": STEPS}, "graders": graders},
        {"id": "late", "input": late, "limits": {"seconds": 4}, "graders": graders},
        {"id": "patient", "input": patient, "graders": graders},
    ]

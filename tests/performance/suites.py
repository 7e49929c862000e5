"""Folders of trials, and the plain tests they are compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PLAIN = """
import pytest

@pytest.fixture
def thing():
    return 1

@pytest.mark.parametrize("number", range({count}))
def test_it(number, thing):
    assert thing == 1
"""


def one_turn(number: int, **entry: Any) -> dict[str, Any]:
    """Give a task of one question and one answer."""
    return {
        "id": f"question_{number}",
        "input": {"content": f"What is {number} and one more?"},
        "script": [{"text": f"It is {number + 1}.", **entry}],
        "graders": [{"name": "answer_contains", "config": {"text": "It is"}}],
    }


def write(folder: Path, count: int, per_file: int, **entry: Any) -> Path:
    """Write a suite of so many one-turn tasks, and as many plain tests beside it."""
    evals = folder / "evals"
    evals.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (evals / "suite.json").write_text(json.dumps({"name": "one_turn", "kind": "capability"}))
    tasks = [one_turn(number, **entry) for number in range(count)]
    for start in range(0, count, per_file):
        chunk = tasks[start : start + per_file]
        value: Any = chunk if per_file > 1 else chunk[0]
        (evals / f"tasks_{start:05d}.json").write_text(json.dumps(value))
    (folder / "test_plain.py").write_text(PLAIN.format(count=count))
    return folder

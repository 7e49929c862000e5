"""Folders of trials, and the plain tests they are compared with."""

from __future__ import annotations

import json
from collections.abc import Mapping
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

BARE = """
import types

import pytest


@pytest.fixture
def trial():
    return 1


def verdict(trial):
    pass


class BareItem(pytest.Function):
    def setup(self):
        self.funcargs["trial"] = 1
        self.user_properties.append(("ending", "passed"))


class BareFile(pytest.Module):
    def _getobj(self):
        return types.ModuleType("bare")

    def collect(self):
        self.obj.bare = verdict
        shape = next(iter(self._genfunctions("bare", verdict)))
        for line in self.path.read_text().splitlines():
            function = types.FunctionType(verdict.__code__, {}, line)
            shared = {"callspec": shape.callspec, "fixtureinfo": shape._fixtureinfo}
            yield BareItem.from_parent(self, name=f"{line}[1]", callobj=function, **shared)


def pytest_collect_file(file_path, parent):
    return BareFile.from_parent(parent, path=file_path) if file_path.suffix == ".bare" else None


def pytest_generate_tests(metafunc):
    metafunc.parametrize("trial", [1], ids=["1"], indirect=True)
"""
"""The least that a plugin can do with files of its own: shared shapes, no fixtures, nothing carried out."""

ADD = '''
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''

COLLECTED = """
import time
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session):
    Path("collected_at").write_text(str(time.monotonic()))
"""
"""By the clock that all processes of a machine share, where that is a POSIX one."""


def write_bare(folder: Path, count: int, per_file: int) -> Path:
    """Write so many items that do nothing, as a plugin would collect them from files of its own."""
    folder.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(BARE)
    for start in range(0, count, per_file):
        lines = [f"bare_{number}" for number in range(start, min(start + per_file, count))]
        (folder / f"items_{start:05d}.bare").write_text("\n".join(lines))
    return folder


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
    evals = _evals(folder, {"name": "one_turn", "kind": "capability"})
    for start in range(0, count, per_file):
        # File by file: a child's peak of memory is never below its parent's.
        chunk = [one_turn(number, **entry) for number in range(start, min(start + per_file, count))]
        value: Any = chunk if per_file > 1 else chunk[0]
        (evals / f"tasks_{start:05d}.json").write_text(json.dumps(value))
    (folder / "test_plain.py").write_text(PLAIN.format(count=count))
    return folder


def _evals(folder: Path, suite: Mapping[str, Any]) -> Path:
    evals = folder / "evals"
    evals.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (evals / "suite.json").write_text(json.dumps(suite))
    return evals


def _tool_suite(folder: Path) -> Path:
    evals = _evals(folder, {"name": "tools", "kind": "capability", "tools": ["tools.py"]})
    (evals / "tools.py").write_text(ADD)
    return evals


def write_asked(folder: Path, count: int, model: Mapping[str, str], *, tools: bool = False) -> Path:
    """Write a suite of questions to a model ``loop``, with a tool or without.

    When its collection has ended, its conftest writes down when that was.
    """
    evals = _tool_suite(folder) if tools else _evals(folder, {"name": "asked", "kind": "capability"})
    graders = [{"name": "answer_contains", "config": {"text": "42"}}]
    more = {"settings": {"tools": ["add"]}} if tools else {}
    tasks = [
        {
            "id": f"q{number}",
            "input": {"content": f"What is {number} and 42, less {number}?"},
            "graders": graders,
            **more,
        }
        for number in range(count)
    ]
    (evals / "tasks.json").write_text(json.dumps(tasks))
    (folder / "conftest.py").write_text(COLLECTED)
    settings = ", ".join(f"{name} = {json.dumps(value)}" for name, value in model.items())
    (folder / "pyproject.toml").write_text(f"[tool.agenteval.models]\nloop = {{{settings}}}\n")
    (folder / "pytest.ini").unlink()  # which would be read in the place of pyproject.toml
    return folder


def write_calling(folder: Path, count: int) -> Path:
    """Write a suite of offline tasks that call a tool once, and two graders each."""
    evals = _tool_suite(folder)
    graders = [
        {"name": "answer_contains", "config": {"text": "It is"}},
        {"name": "tool_called", "config": {"tools": ["add"]}},
    ]
    tasks = [
        {
            **one_turn(number),
            "settings": {"tools": ["add"]},
            "script": [
                {"calls": [{"tool": "add", "args": {"a": number, "b": 1}}]},
                {"text": f"It is {number + 1}."},
            ],
            "graders": graders,
        }
        for number in range(count)
    ]
    (evals / "tasks.json").write_text(json.dumps(tasks))
    return folder

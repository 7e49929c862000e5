"""Folders of trials, and the plain tests they are compared with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.store.record_files import add_checksum

PLAIN = """
import pytest

@pytest.fixture
def thing():
    return 1

@pytest.mark.parametrize("number", range({count}))
def test_it(number, thing):
    assert thing == 1
"""


ADD = '''
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''

COLLECTED = """
import time
from pathlib import Path

from pytest_agenteval.store.record_files import add_checksum

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session):
    Path("collected_at").write_text(str(time.monotonic()))
"""
"""By the clock that all processes of a machine share, where that is a POSIX one."""


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


OWN_AGENT = """
import json
from urllib.request import Request, urlopen


def answer(question):
    messages = [{{"role": "user", "content": question}}]
    for _ in range({asks}):
        body = json.dumps({{"model": "own", "messages": messages}}).encode()
        with urlopen(Request("{address}/chat/completions", body)) as reply:
            said = json.load(reply)["choices"][0]["message"]["content"]
    return said
"""


def write_own(folder: Path, count: int, asks: int, address: str, model: Mapping[str, str]) -> Path:
    """Write questions to an agent that sends ``asks`` requests of its own for each."""
    write_asked(folder, count, model)
    suite = {"name": "asked", "kind": "capability", "agent": {"call": "own_agent:answer"}}
    (folder / "evals" / "suite.json").write_text(json.dumps(suite))
    (folder / "evals" / "own_agent.py").write_text(OWN_AGENT.format(asks=asks, address=address))
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


TABLE = """
name: table
kind: capability
tasks:
  rows: questions.jsonl
  id: id
  input: question
  bucket: topic
  script: [{text: "{{ answer }}"}]
  graders:
    - {name: answer_contains, config: {text: "It is"}}
    - {name: answer_contains, label: even, config: {text: "even"}}
"""


def write_table(folder: Path, count: int) -> Path:
    """Write a suite whose tasks are the rows of a table, and as many plain tests beside it."""
    evals = folder / "evals"
    evals.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (evals / "suite.yaml").write_text(TABLE)
    with (evals / "questions.jsonl").open("w") as rows:
        for number in range(count):
            answer = f"It is {number + 1}, {'even' if number % 2 else 'odd'}."
            row = {
                "id": f"q{number}",
                "question": f"{number} + 1?",
                "answer": answer,
                "topic": f"t{number % 9}",
            }
            rows.write(json.dumps(row) + "\n")
    (folder / "test_plain.py").write_text(PLAIN.format(count=count))
    return folder


def other_run(newest: Path) -> None:
    """Store the same run once more, with every tenth trial passed that had missed."""
    other = newest.with_name("20000101-000000-scripted")
    shutil.copytree(newest, other)
    for journal in newest.glob("journal-*.jsonl"):
        # Line by line: a process that is started has at least the peak of the one that starts it.
        with journal.open() as lines, (other / journal.name).open("w") as changed:
            for number, line in enumerate(lines):
                if number % 10 == 0:
                    line = line.replace('"ending":"missed","score":0.5', '"ending":"passed","score":1.0')
                    whole = line.partition(',"crc"')[0] + "}\n"
                    line = add_checksum(whole.encode()).decode()
                changed.write(line)
    header = other / "run.json"
    header.write_text(header.read_text().replace(newest.name, other.name))

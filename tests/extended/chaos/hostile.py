"""Inputs that mean no good: each ends in a bounded time, in a way that ``docs/project/limits.md`` names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

BOUND_S = 150.0
"""Nothing here may take longer, on any machine; what was measured on one stands in docs/project/limits.md."""

SUITE = "name: hostile\nkind: regression\ndefaults: {model: scripted}\n"
CONFTEST = """
import sys
import time

from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import Tool
import pytest_agenteval.engine.grading as grader_run

grader_run.GRADING_S = 3.0


class Agent:
    def __init__(self, way=""):
        self.way = way

    async def run(self, task_input, ctx):
        if self.way == "answer":
            return "ok" + "x" * 100_000_000
        if self.way == "calls":
            ctx.tools.offer_named(["look"])
            for number in range(10_000):
                await ctx.tools.call(ToolCall(f"c{number}", 1, number, "look", {"n": number}))
        if self.way == "files":
            for folder in range(100):
                (ctx.workspace.path / f"d{folder}").mkdir()
                for number in range(1000):
                    (ctx.workspace.path / f"d{folder}" / f"{number}.txt").write_text("x")
        if self.way == "sparse":
            for number in range(3):
                with open(ctx.workspace.path / f"{number}.bin", "wb") as file:
                    file.truncate(60 * 1024**3)
        return "ok"


class Grader:
    def __init__(self, way=""):
        self.way = way

    def grade(self, evidence):
        if self.way == "hangs":
            time.sleep(600)
        if self.way == "prints":
            print("x" * 10_000_000)
        if self.way == "exits":
            sys.exit(3)
        return Grade("own", 1.0, "fine")


def pytest_agenteval_register(registry):
    registry.agent("own", Agent)
    registry.grader("own", Grader)
    registry.tool(Tool(ToolSpec("look", "Looks."), lambda args: "seen"))
"""


class Hostile(NamedTuple):
    """Files beside an ordinary suite, and the words that the end must have."""

    name: str
    files: Callable[[], Mapping[str, str]]
    words: tuple[str, ...]


def _own(way: str = "", grader: str = "") -> Mapping[str, str]:
    graders = [
        {"name": "own", "config": {"way": grader}},
        {"name": "answer_contains", "config": {"text": "ok"}},
    ]
    task = {
        "id": "bad",
        "agent": "own",
        "settings": {"way": way},
        "input": {"content": "x"},
        "graders": graders,
    }
    return {"bad.json": json.dumps(task)}


def _bomb() -> Mapping[str, str]:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    return {"bad.yaml": "\n".join(["id: bad", "graders: []", *rows])}


def _task(**more: Any) -> dict[str, Any]:
    task = {"id": "bad", "input": {"content": "x"}, "script": [{"text": "ok"}]}
    return {**task, "graders": [{"name": "answer_contains", "config": {"text": "ok"}}], **more}


def _large() -> Mapping[str, str]:
    return {"bad.json": json.dumps(_task(description="x" * 10_000_000))}


def _many() -> Mapping[str, str]:
    return {"bad.json": json.dumps([_task(id=f"t{n}") for n in range(100_000)])}


def _deep() -> Mapping[str, str]:
    return {"bad.json": '{"id": "bad", "graders": ' + "[" * 100_000}


INPUTS = (
    Hostile("a YAML bomb of 9^30 values", _bomb, ("bad.yaml", "alias")),
    Hostile(
        "a task file of 10 MB",
        _large,
        ("2 passed",),
    ),
    Hostile(
        "100,000 tasks in one file",
        _many,
        ("100,001 trials of 100,001 tasks",),
    ),
    Hostile(
        "JSON nested 100,000 deep",
        _deep,
        ("bad.json",),
    ),
    Hostile("an answer of 100 MB", partial(_own, "answer"), ("2 passed",)),
    Hostile("10,000 tool calls", partial(_own, "calls"), ("2 passed",)),
    Hostile("100,000 files in a workspace", partial(_own, "files"), ("2 passed",)),
    Hostile("sparse files of 60 GiB in a workspace", partial(_own, "sparse"), ("2 passed",)),
    Hostile("a grader that hangs", partial(_own, "", "hangs"), ("grader_hangs: no grade", "1 passed")),
    Hostile("a grader that prints 10 MB", partial(_own, "", "prints"), ("2 passed",)),
    Hostile("a grader that calls sys.exit", partial(_own, "", "exits"), ("grader_crash", "1 passed")),
)


def run_beside(root: Path, given: Hostile) -> list[str]:
    """Run pytest on an ordinary task and a hostile one beside it; say what went wrong."""
    evals = root / "evals"
    files = {"suite.yaml": SUITE, "conftest.py": CONFTEST, "good.json": json.dumps(_task(id="good"))}
    for name, content in {**files, **given.files()}.items():
        (evals / name).parent.mkdir(parents=True, exist_ok=True)
        (evals / name).write_text(content, encoding="utf-8")
    only = (
        ["--collect-only", "-qq"]
        if "100,001" in given.words[0]
        else ["-q", "--continue-on-collection-errors"]
    )
    command = [sys.executable, "-m", "pytest", "evals", "-p", "no:cacheprovider", *only]
    try:
        ended = subprocess.run(
            command, cwd=root, capture_output=True, text=True, timeout=BOUND_S, check=False
        )
    except subprocess.TimeoutExpired:
        return [f"not ended after {BOUND_S:g} s"]
    output = ended.stdout + ended.stderr
    wrong = [f"nothing says {word!r}: {output[-300:]}" for word in given.words if word not in output]
    return wrong + (["pytest broke"] if "INTERNALERROR" in output else [])

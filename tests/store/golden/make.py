"""Makes a golden run: extracts a commit of this project and lets its own code try a small suite, offline.

    python -m tests.store.golden.make REVISION NAME

writes ``tests/store/golden/runs/NAME``. What a revision knows beyond the first is in ``ADDED``; a golden run
is made once, with the commit that is to be remembered, and never again: its age is what it is for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.suites import task, write

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LONG = "Hello! " * 200
"""Longer than what a transcript's line holds: it stands in a file of its own."""

FIRST: dict[str, Any] = {
    "pyproject.toml": "",
    "evals/suite.yaml": "name: greetings\nkind: capability\ndefaults: {model: scripted}\n",
    "evals/greets.json": task("greets"),
    "evals/forgets.json": task("forgets", says=LONG),
    "evals/breaks.json": {**task("breaks"), "script": []},
}
"""The suite: a task that passes, one that misses, one whose model has nothing to say, which errors."""

CRASHING = """
class Crashes:
    version = "1"

    def grade(self, evidence):
        raise RuntimeError("no scale there")


def pytest_agenteval_register(registry):
    registry.grader("crashes", Crashes)
"""
GREETER = """
def greet(task_input, ctx):
    return "Hello, Mina!"


def pytest_agenteval_register(registry):
    registry.agent("greeter", greet)
"""
OF_CODE = {**task("greets_by_code"), "agent": "greeter"}
LABELLED = "name: greetings\nkind: capability\ndefaults: {model: scripted}\nacts: {tools: [wave]}\n"
GATE = "gate: {score: 0.3}\n"
WAVES = {
    **task("waves"),
    "metadata": {"label": "positive"},
    "script": [{"calls": [{"tool": "wave", "args": {"to": "Mina"}}]}, {"text": "Hello, Mina!"}],
}
TOOL = '''
def wave(to: str) -> str:
    """Wave to somebody."""
    return f"{to} waves back"
'''

ADDED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "first": ({}, ()),
    "crash": (
        {
            "conftest.py": CRASHING,
            "evals/weighs.json": {**task("weighs"), "graders": [{"name": "crashes"}]},
        },
        (),
    ),
    "code": ({"conftest.py": GREETER, "evals/by_code.json": OF_CODE}, ()),
    "gate": (
        {"evals/suite.yaml": FIRST["evals/suite.yaml"] + GATE},
        ("--repetitions=1..2", "--agent-baseline=latest"),
    ),
    "split": ({"evals/greets.json": task("greets", split="held_out")}, ("--agent-split=all",)),
    "tools": (
        {
            "evals/tools.py": TOOL,
            "evals/suite.yaml": LABELLED + "tools: [tools.py]\n",
            "evals/waves.json": WAVES,
        },
        (),
    ),
    "shard": ({}, ("--agent-shard=1/1",)),
    "reuse": ({}, ("--agent-reuse=latest",)),
}


def make(revision: str, name: str, added: str) -> Path:
    """Let a revision's code try the suite, and keep the run's folder under this name."""
    more, told = ADDED[added]
    place = Path(tempfile.gettempdir(), "golden")
    code, project = place / "code", place / "project"
    code.mkdir(parents=True)
    try:
        archive = subprocess.run(
            ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(code)], input=archive.stdout, check=True)
        write(project, {**FIRST, **more})
        left_out = ("AGENTEVAL_", "PYTEST_", "GITHUB_")
        environ = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
        environ |= {"PYTHONPATH": str(code / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_agenteval.plugin", "evals", *told]
        if any(word.endswith("=latest") for word in told):  # the run before has to be there
            subprocess.run(command[: -len(told)], cwd=project, env=environ, check=False)
        subprocess.run(command, cwd=project, env=environ, check=False)
        target = HERE / "runs" / name
        shutil.copytree((project / ".agenteval/runs/latest").resolve(), target)
    finally:
        shutil.rmtree(place)
    return target


if __name__ == "__main__":
    print(make(*sys.argv[1:4]))

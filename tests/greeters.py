"""A suite whose agent forgets whom to greet where a file says so: two runs differ in what a test chooses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cli.main import main
from tests.suites import run, write

CONFTEST = '''
import json, sys
from pathlib import Path

MOODS = Path(__file__).with_name("moods.json")


def greet(task_input, ctx):
    """Greet Mina, unless the task's mood says otherwise; who is tired greets her when tried again."""
    mood = json.loads(MOODS.read_text()).get(task_input["content"], "fine")
    if mood == "broken":
        raise RuntimeError("no greeter there")
    if mood == "stuck" and "--agent-gate=none" in sys.argv:
        raise KeyboardInterrupt
    again = "--agent-gate=none" in sys.argv and mood == "tired"
    return "Hello, Mina!" if mood == "fine" or again else "Hello!"


def pytest_agenteval_register(registry):
    registry.agent("greeter", greet)
'''
BUCKETS = {"morning": 7, "night": 5}


def task_names(bucket: str) -> list[str]:
    """Give the names of the tasks of a bucket."""
    return [f"{bucket}_{number}" for number in range(BUCKETS[bucket])]


def write_greeters(root: Path, gate: Mapping[str, Any] | None = None, kind: str = "capability") -> None:
    """Write the suite, in which every greeting succeeds."""
    head = {"name": "greetings", "kind": kind, "agent": "greeter"}
    tasks = {
        f"evals/greetings/{bucket}/{name}.json": {
            "id": name,
            "input": {"content": name},
            "graders": [{"name": "answer_contains", "config": {"text": "Mina"}}],
        }
        for bucket in BUCKETS
        for name in task_names(bucket)
    }
    suite = json.dumps({**head, **({"gate": gate} if gate is not None else {})})
    write(root, {"conftest.py": CONFTEST, "moods.json": "{}", "evals/greetings/suite.yaml": suite, **tasks})


def set_mood(root: Path, mood: str, names: Iterable[str]) -> None:
    """Let the agent fail in these tasks, and in no other, as the mood says."""
    (root / "moods.json").write_text(json.dumps(dict.fromkeys(names, mood)))


def greet(pytester: pytest.Pytester, *args: str, workers: int = 0, times: int = 3) -> pytest.RunResult:
    """Run the suite."""
    own = (f"--repetitions={times}", "--agent-model=nop")
    paths = () if any(argument.startswith("evals") for argument in args) else ("evals",)
    return run(pytester, *own, *paths, *args, workers=workers)


def latest_header(root: Path) -> dict[str, Any]:
    """Give the header of the newest run."""
    header: dict[str, Any] = json.loads((root / ".agenteval/runs/latest/run.json").read_text())
    return header


TRIED: list[Path] = []


def write_tried_greeters(pytester: pytest.Pytester, gate: Mapping[str, Any] | None = None) -> None:
    """Write the suite, a run of it in which all was well, and its kept.json: tried once, copied later."""
    write_greeters(pytester.path)
    if not TRIED:
        greet(pytester)
        main(["baseline", "set", "latest", "--to=kept.json"])
        TRIED.append(pytester.mkdir("tried"))
        shutil.copytree(pytester.path / ".agenteval", TRIED[0] / ".agenteval", symlinks=True)
        shutil.copy(pytester.path / "kept.json", TRIED[0])
    else:
        shutil.copytree(TRIED[0], pytester.path, symlinks=True, dirs_exist_ok=True)
    write_greeters(pytester.path, gate)

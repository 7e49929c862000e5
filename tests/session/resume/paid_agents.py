"""An agent whose every answer stands in a bill, and that waits where a run is to be cut short."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.forked_workers import start_python
from tests.journals import run_folder
from tests.suites import task, write

CONFTEST = """
import asyncio
from pathlib import Path


class Paid:
    '''Writes a bill, waits while its task is to wait and nobody says go, and says hello.'''

    templates = {"system": "Be kind.", "closing": "Say goodbye."}

    async def run(self, task_input, ctx):
        ctx.prompts.render("system")
        with open("bill.txt", "a") as bill:
            bill.write(f"{task_input['content']}\\n")
        while task_input.get("waits") and not Path("go").exists():
            await asyncio.sleep(0.01)
        return "Mina"


def pytest_agenteval_register(registry):
    registry.agent("paid", Paid)
"""
SUITE = "name: demo\nkind: capability\nagent: paid\ndefaults: {model: scripted}\n"


def paid_task(id: str, *, waits: bool = False, **more: Any) -> dict[str, Any]:
    """Give a task for which the agent writes a bill."""
    return task(id, **{"input": {"content": id, "waits": waits}, **more})


def project(root: Path, tasks: Sequence[dict[str, Any]]) -> None:
    """Write a suite of such tasks."""
    files = {"evals/suite.yaml": SUITE, "evals/conftest.py": CONFTEST, "evals/tasks.json": list(tasks)}
    write(root, {"pytest.ini": "[pytest]\n", **files})


def bills(root: Path) -> Counter[str]:
    """Count how often each task was paid for."""
    path = root / "bill.txt"
    return Counter(path.read_text(encoding="utf-8").split()) if path.exists() else Counter()


def start(root: Path, *args: str) -> subprocess.Popen[str]:
    """Start pytest in a process of its own."""
    words = ("-m", "pytest", "evals", "-o", "addopts=", *args)
    return start_python(*words, cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for(root: Path, run: subprocess.Popen[str], *, finished: int, paid: int) -> None:
    """Wait until so many trials have finished and so many bills are written."""
    until = time.monotonic() + 60
    while time.monotonic() < until and run.poll() is None:
        journals = list(root.glob(".agenteval/runs/2*/journal-*.jsonl"))
        lines = "".join(journal.read_text(encoding="utf-8") for journal in journals)
        if lines.count('"finished"') >= finished and bills(root).total() >= paid:
            return
        time.sleep(0.02)
    output = run.communicate(timeout=10)[0] if run.poll() is not None else "nothing"
    raise AssertionError(f"the run did not come so far: {output}")


def files_left(root: Path) -> set[str]:
    """Name what a run's processes share while they work, and should have taken away."""
    return {path.name for path in run_folder(root).iterdir()} & {"stop", "lost", ".held"}

"""Suites of scripted tasks, and runs of pytest on them, for tests that look at the plugin from outside."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.forked_workers import fork_workers

# PyYAML's compiled half is never forgotten: a second copy of the other half would not know its nodes. What
# litellm imports takes its place in the interpreter's own finder, which would find nothing without it.
for name in ("yaml", "httpx", "importlib_metadata"):
    with suppress(ImportError):
        import_module(name)

REGRESSION = "name: {name}\nkind: regression\ndefaults: {{model: scripted}}\n"


def suite(name: str = "greetings", more: str = "") -> str:
    """Give a suite.yaml of scripted tasks in which a miss is a failure."""
    return REGRESSION.format(name=name) + more


def task(id: str, *, says: str = "Hello, Mina!", wants: str = "Mina", **more: Any) -> dict[str, Any]:
    """Give a task that the scripted model answers; it passes where the answer holds what is wanted."""
    return {
        "id": id,
        "input": {"content": "Say hello to Mina."},
        "script": [{"text": says}],
        "graders": [{"name": "answer_contains", "config": {"text": wants}}],
        **more,
    }


def write(root: Path, files: Mapping[str, Any]) -> None:
    """Write files below a folder; what is no text is written as indented JSON."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
        path.write_text(text, encoding="utf-8")


def only_our_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of pytest load this plugin only, and know no key and no setting of whoever runs the tests.

    Ten times as quick as with all that is installed; ``run`` adds xdist where workers are asked for.
    """
    fork_workers(monkeypatch)
    for name in list(os.environ):
        if name.startswith("AGENTEVAL_") or name.endswith("_API_KEY") or name == "GITHUB_STEP_SUMMARY":
            monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p agenteval")


def import_multiprocessing() -> None:
    """Import what pytester would forget, upon which multiprocessing loses count of its semaphores.

    To be called by a module: when a test begins, pytester has noted already what it will not forget.
    """
    for name in ("resource_tracker", "synchronize", "queues", "popen_spawn_posix", "spawn"):
        with suppress(ImportError):
            import_module(f"multiprocessing.{name}")
    import_module("pytest_agenteval.engine.process_executor")


def run(pytester: pytest.Pytester, *args: str, workers: int = 0) -> pytest.RunResult:
    """Run pytest in this process, with so many workers in processes of their own."""
    spread = ("-p", "xdist.plugin", f"-n{workers}") if workers else ()
    if "-W" in args:
        gc.collect()  # what earlier tests left open is no warning of this run
    return pytester.runpytest_inprocess(*spread, *args)


def collected_ids(pytester: pytest.Pytester, *args: str) -> list[str]:
    """Give the node ids that pytest would run with these arguments."""
    result = run(pytester, "--collect-only", "-q", *args)
    return [line for line in result.outlines if "::" in line]


def journaled(root: Path) -> list[str]:
    """Give task, model, variant and repetition of every trial that was begun in the latest run."""
    (run,) = (root / ".agenteval" / "runs").glob("2*")
    texts = [file.read_text(encoding="utf-8") for file in run.glob("journal-*")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    return sorted(_named(line) for line in lines if line["kind"] == "started")


def _named(line: Mapping[str, Any]) -> str:
    variant = f"@{line['variant']}" if line.get("variant") else ""
    return f"{line['task']}[{line['model']}{variant}-{line['repetition']}]"

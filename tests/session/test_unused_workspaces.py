"""A starting tree that no task starts from is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.suites import only_our_plugin, run, suite, task, write

pytest_plugins = ["pytester"]

FILES = {
    "evals/suite.yaml": suite(),
    "evals/own/task.yaml": task("own"),
    "evals/own/other.yaml": task("other"),
    "evals/named/named.yaml": task("named", input={"content": "x", "fixture_dir": "named/workspace"}),
    "evals/lost/lost.yaml": task("lost"),
}
TREES = {f"evals/{name}/workspace/a.md": "x" for name in ("own", "named", "lost")}


@pytest.fixture
def trees(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tasks with a folder ``workspace/`` beside each: taken by its name, by a setting, and by nobody."""
    only_our_plugin(monkeypatch)
    write(pytester.path, {**FILES, **TREES})
    return pytester.path


@pytest.mark.parametrize("workers", [0, 2], ids=["one-process", "two-workers"])
def test_a_workspace_that_no_task_starts_from_is_told(
    pytester: pytest.Pytester, trees: Path, workers: int
) -> None:
    """A tree beside a task under a name of its own is not what it starts from, unless the task says so."""
    screen = run(pytester, "evals", "-q", workers=workers).stdout.str()

    assert re.findall(r"^(\S+): no task starts from it", screen, re.MULTILINE) == ["evals/lost/workspace"]
    assert "`input: {fixture_dir: ...}`" in " ".join(screen.split())

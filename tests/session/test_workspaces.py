"""The workspaces of a whole run: a fresh one for each trial, kept where asked; one unused is told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.journals import journal, run_folder, trials
from tests.suites import run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

CAPABILITY = "name: demo\nkind: capability\ndefaults: {model: scripted, trials_per_run: 3}\n"
WRITING = """
import asyncio
import os


class Writing:
    '''Notes what it finds, and waits so that others come by meanwhile.'''

    async def run(self, task_input, ctx):
        for number in range(3):
            with (ctx.path / "log.md").open("a") as log:
                log.write(task_input["content"])
            await asyncio.sleep(0.01)
        return "Mina"


class Crashing(Writing):
    async def run(self, task_input, ctx):
        await super().run(task_input, ctx)
        os.mkfifo(ctx.path / "pipe")
        raise ValueError("too late")


def pytest_agenteval_register(registry):
    registry.agent("writing", Writing)
    registry.agent("crashing", Crashing)
"""


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files that the run finds, empty before it."""
    import tempfile

    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


EVALS = {
    "fixtures/base/a.md": "a",
    "evals/suite.yaml": CAPABILITY,
    "evals/conftest.py": WRITING,
    "evals/one/task.json": task("one", agent="writing", input={"content": "1", "base_fixture": "base"}),
    "evals/one/workspace/log.md": "begun: ",
    "evals/two/task.json": task("two", agent="crashing", input={"content": "2"}, trials_per_run=1),
    "evals/three/task.json": task("three", input={"content": "3", "base_fixture": "base"}),
}


@pytest.mark.parametrize("keeps", [False, True])
def test_every_trial_has_a_tree_of_its_own(pytester: pytest.Pytester, temporary: Path, keeps: bool) -> None:
    """Repetitions that run side by side never meet, and the folder for temporary files is as it was.

    Where somebody asks, each tree stays in the run's folder, and the record says which.
    """
    write(pytester.path, EVALS)
    options = ("--agent-keep-workspaces",) if keeps else ()
    run(pytester, "evals", "-p", "no:cacheprovider", *options, workers=1)
    ended = trials(pytester.path)
    assert len(journal(pytester.path, "finished")) == 7
    assert ended["one"].outcome.after.text("log.md") == "begun: 111"
    assert ended["one"].outcome.diff.modified == ("log.md",)
    assert ended["two"].outcome.diff.created == ("log.md", "pipe")
    assert not ended["three"].outcome.diff
    assert [path.name for path in temporary.rglob("*") if "agenteval" in path.name] == []
    if keeps:
        trees = sorted((run_folder(pytester.path) / "workspaces").iterdir())
        assert sorted((tree / "log.md").read_text() for tree in trees) == ["222", *["begun: 111"] * 3]
        assert Path(ended["one"].workspace) in trees
        assert (Path(ended["one"].workspace) / "a.md").read_text() == "a"
    assert ended["three"].workspace == ""


FILES = {
    "evals/suite.yaml": suite(),
    "evals/own/task.yaml": task("own"),
    "evals/own/other.yaml": task("other"),
    "evals/named/named.yaml": task("named", input={"content": "x", "fixture_dir": "named/workspace"}),
    "evals/lost/lost.yaml": task("lost"),
}
TREES = {f"evals/{name}/workspace/a.md": "x" for name in ("own", "named", "lost")}


@pytest.fixture
def trees(pytester: pytest.Pytester) -> Path:
    """Tasks with a folder ``workspace/`` beside each: taken by its name, by a setting, and by nobody."""
    write(pytester.path, {**FILES, **TREES})
    return pytester.path


@pytest.mark.parametrize("workers", [0, 2], ids=["one-process", "two-workers"])
def test_an_unused_workspace_is_named(pytester: pytest.Pytester, trees: Path, workers: int) -> None:
    """Only a task called task.yaml starts from the workspace beside it; others have to name theirs."""
    screen = run(pytester, "evals", "-q", workers=workers).stdout.str()

    assert re.findall(r"^(\S+): no task uses this workspace", screen, re.MULTILINE) == [
        "evals/lost/workspace"
    ]
    assert "`input: {fixture_dir: ...}`" in " ".join(screen.split())

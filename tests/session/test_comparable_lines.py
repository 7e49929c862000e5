"""A run's lines say the task's file, the graders' versions and the agent's code, wherever it ran."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.run_folder import find_run
from pytest_agenteval.store.run_reader import load_run
from pytest_agenteval.text.json_values import json_digest, text_digest
from tests.suites import import_multiprocessing, run, suite, task, write

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("quick")

import_multiprocessing()

ACTING = """
def act(task_input, ctx):
    return "Hello, Mina!"
"""
CONFTEST = """
from acting import act

class Bot:
    def run(self, task_input, ctx):
        return "Hello, Mina!"

def wave(task_input, ctx):
    return "Hello, Mina!"

def pytest_agenteval_register(registry):
    registry.agent("bot", Bot)
    registry.agent("act", act)
    registry.agent("wave", wave)
"""


def entries(pytester: pytest.Pytester) -> dict[str, JournalEntry]:
    """Give the journal entries of the latest run by task."""
    stored = load_run(find_run(pytester.path / ".agenteval/runs", "latest"))
    return {entry.key.task: entry for entry in stored.entries}


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """Give a project with two tasks in one file and one in another, of agents of its own."""
    first: list[dict[str, Any]] = [task("a", agent="wave"), task("b", agent="act")]
    write(
        pytester.path,
        {
            "pytest.ini": "[pytest]\n",
            "conftest.py": CONFTEST,
            "acting.py": ACTING,
            "evals/suite.yaml": suite(),
            "evals/two.json": first,
            "evals/deep/c.json": task("c", agent="bot"),
        },
    )
    return pytester


def test_lines_say_the_same_wherever_and_however_a_run_is_carried_out(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files from pytest's rootdir: a run that was started in a folder below it is comparable too."""
    run(project, "evals", "-q").assert_outcomes(passed=3)
    expected = entries(project)
    assert {name: entry.file for name, entry in expected.items()} == {
        "a": "evals/two.json",
        "b": "evals/two.json",
        "c": "evals/deep/c.json",
    }
    conftest = json_digest([text_digest(CONFTEST)])
    code = {name: entry.digests.code for name, entry in expected.items()}
    assert code == {"a": conftest, "b": json_digest([text_digest(ACTING)]), "c": conftest}
    assert all(entry.digests.graders.keys() == {"answer_contains"} for entry in expected.values())

    for how in ("here", "from below", "workers", "processes"):
        with monkeypatch.context() as below:
            if how == "from below":
                below.chdir(project.path / "evals")
            more = ["--agent-executor=processes:1"] if how == "processes" else []
            run(project, str(project.path / "evals"), "-q", *more, workers=int(how == "workers"))

        again = entries(project)
        assert {entry.started_at for entry in again.values()}.isdisjoint(
            entry.started_at for entry in expected.values()
        )
        assert {name: (entry.file, entry.digests) for name, entry in again.items()} == {
            name: (entry.file, entry.digests) for name, entry in expected.items()
        }, how

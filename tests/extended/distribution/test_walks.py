"""The three walks of docs/project/architecture.md: functions that run, in the order that the page gives."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.suites import write

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "project" / "architecture.md").read_text(encoding="utf-8")
WALKS = {
    title: [
        f"{module}:{function}" for module, function in re.findall(r"^\d+\. `(\S+)` `(\S+)`: ", text, re.M)
    ]
    for title, text in re.findall(r"^### ([^\n]+)\n(.*?)(?=^#|\Z)", PAGE, re.M | re.S)
}
TRACED = """
import json, sys, threading
import pytest

entered = {}

def note(frame, event, argument):
    module = frame.f_globals.get("__name__", "") if event == "call" else ""
    if module.startswith("pytest_agenteval."):
        path = module.removeprefix("pytest_agenteval.").replace(".", "/")
        entered[f"{path}.py:{frame.f_code.co_qualname}"] = None

threading.setprofile(note)
sys.setprofile(note)
status = pytest.main(sys.argv[2:])
sys.setprofile(None)
with open(sys.argv[1], "w") as file:
    json.dump(list(entered), file)
sys.exit(status)
"""
"""Runs pytest and lists our functions in the order in which each is entered for the first time."""


@pytest.fixture(scope="module")
def entered(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Functions that one trial with one grader enters: a model on loopback answers, JUnit is written."""
    folder = tmp_path_factory.mktemp("walks")
    task = {
        "id": "add",
        "input": {"content": "What is 1 + 2?"},
        "graders": [{"name": "answer_contains", "config": {"text": "3"}}],
    }
    write(
        folder,
        {"evals/suite.yaml": "name: sums\nkind: regression\nagent: tool_calling\n", "evals/add.json": task},
    )
    options = ["evals", "-q", "-p", "no:cacheprovider", "--agent-model=gpt", "--junitxml=junit.xml"]
    with ModelServer([ReplyPlan(text="It is 3.")]) as server:
        done = subprocess.run(
            [sys.executable, "-c", TRACED, "entered.json", *options],
            cwd=folder,
            env={**os.environ, "OPENAI_BASE_URL": server.openai_base, "OPENAI_API_KEY": "sk-of-the-test"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return list(json.loads((folder / "entered.json").read_text(encoding="utf-8")))


def test_there_are_three_walks_of_at_most_twelve_stations() -> None:
    """A walk is short enough to be held in the head."""
    assert len(WALKS) == 3
    assert all(6 <= len(stations) <= 12 for stations in WALKS.values()), WALKS


@pytest.mark.parametrize("title", WALKS)
def test_a_walk_gives_functions_in_the_order_in_which_they_run(title: str, entered: list[str]) -> None:
    """Each station is entered, and for the first time after the station before it."""
    stations = WALKS[title]

    assert [each for each in stations if each not in entered] == []
    assert stations == sorted(stations, key=entered.index)

"""The suite on disk: task files, suite.yaml and, in a folder that has none, a pytest.ini."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_agenteval.importers.ko_agentbench.tasks import WrittenTask
from pytest_agenteval.importers.project import make_project
from pytest_agenteval.importers.yaml_writing import write_yaml
from pytest_agenteval.records.trial import Kind

NAME = "ko-agentbench"
AGENT = "tool_calling"
KIND: Kind = "capability"
SUITE: dict[str, Any] = {
    "name": NAME,
    "description": "Ko-AgentBench, from a clone of its repository",
    "agent": AGENT,
    "kind": KIND,
    "on_miss": "tool_error",
    "tools": ["ko_agentbench"],
    "cassettes": [NAME],
    "defaults": {"limits": {"steps": 10, "seconds": 60}},
}


def evals_folder(target: Path) -> Path:
    """Give the suite's folder."""
    return target / "evals" / NAME


def cassette_folder(target: Path) -> Path:
    """Give the folder of the suite's shared cassettes."""
    return target / "cassettes" / NAME


def write_suite(target: Path, tasks: Iterable[WrittenTask], *, with_cassettes: bool = True) -> None:
    """Write the suite's files; what the folder says of pytest already stays as it is."""
    folder = evals_folder(target)
    folder.mkdir(parents=True, exist_ok=True)
    left_out = () if with_cassettes else ("cassettes",)
    write_yaml(folder / "suite.yaml", {key: value for key, value in SUITE.items() if key not in left_out})
    for task in tasks:
        write_yaml(folder / task.level / f"{task.id}.yaml", task.content)
    make_project(target)

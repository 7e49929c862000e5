"""The suite on disk: task files, suite.yaml and, in a folder that has none, a pytest.ini."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.importer.tasks import WrittenTask
from pytest_agenteval.importers.project import make_project
from pytest_agenteval.importers.yaml_writing import write_yaml
from pytest_agenteval.records.trial import Kind

NAME = "ko-agentbench"
AGENT = "tool_calling"
KIND: Kind = "capability"
OURS = "suite.yaml"
ABOUT = "Ko-AgentBench, from a clone of its repository"
SUITE: dict[str, Any] = {
    "name": NAME,
    "description": ABOUT,
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


def is_imported(folder: Path) -> bool:
    """Say whether a suite's folder was written by an import of this benchmark."""
    said = folder / OURS
    return said.is_file() and ABOUT in said.read_text(encoding="utf-8", errors="replace")


def write_suite(target: Path, tasks: Iterable[WrittenTask], *, with_cassettes: bool = True) -> list[Path]:
    """Write the suite's files and give their paths; what the folder says of pytest already stays as it is."""
    folder = evals_folder(target)
    left_out = () if with_cassettes else ("cassettes",)
    said = {key: value for key, value in SUITE.items() if key not in left_out}
    written = [write_yaml(folder / OURS, said)]
    written += [write_yaml(folder / task.level / f"{task.id}.yaml", task.content) for task in tasks]
    make_project(target)
    return written

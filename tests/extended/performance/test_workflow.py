"""The workflow ``performance``: what it runs is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from tests.extended.performance.__main__ import parser
from tests.extended.performance.cases import CASES

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "performance.yml"


def steps(job: str) -> list[dict[str, Any]]:
    """Give the steps of a job."""
    found = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"][job]["steps"]
    assert found
    return list(found)


def commands(job: str) -> list[Any]:
    """Give what each measuring step of a job tells the command, read as the command reads it."""
    told = "\n".join(step.get("run", "") for step in steps(job))
    lines = re.findall(
        r"-m tests\.extended\.performance (.*?) \| tee -a \"\$GITHUB_STEP_SUMMARY\"$", told, re.MULTILINE
    )
    return [parser().parse_args(shlex.split(line)) for line in lines]


def test_a_pull_request_is_held_against_its_base() -> None:
    """By the merge's first parent, which the checkout has to fetch; then it is measured by itself."""
    against, alone = commands("change")

    assert against.against == "HEAD^1"
    assert steps("change")[0]["with"]["fetch-depth"] == 2
    assert alone.case
    assert set(alone.case) < CASES.keys()


def test_the_peers_are_measured_where_they_were_installed() -> None:
    """In the folder in which the step before has made their environments."""
    (whole,) = commands("peers")

    assert whole.peers
    assert any(
        step.get("run", "").endswith(f"tests.extended.performance.peers {whole.venvs}")
        for step in steps("peers")
    )

"""Floors and ceilings of what is needed are those that were run: who installs us gets what works."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NEEDED = {
    need.name: need.specifier
    for need in map(
        Requirement,
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"],
    )
}
DATED = {"regex"}
"""Their versions are dates: no number tells of a break."""


def test_everything_needed_has_a_floor_and_a_ceiling() -> None:
    """What comes after the newest version that was run may be anything."""
    bounds = {name: {each.operator for each in specifier} for name, specifier in NEEDED.items()}

    assert {name: ends for name, ends in bounds.items() if ends != {">=", "<"} and name not in DATED} == {}


@pytest.mark.parametrize(
    ("name", "version", "works"),
    [
        ("mcp", "1.30.0", False),
        ("mcp", "2.0.0", True),
        ("mcp", "2.1.1", True),
        ("mcp", "3.0.0", False),
        ("litellm", "1.106.1", False),
        ("litellm", "1.106.2", True),
        ("litellm", "1.110.2", True),
        ("litellm", "1.999.0", True),
        ("regex", "2026.1.15", True),
        ("litellm", "2.0.0", False),
    ],
)
def test_what_fits_together_is_in_range_and_what_does_not_is_out(
    name: str, version: str, works: bool
) -> None:
    """litellm needs mcp 2; strands-agents wants mcp below 2.2, crewai regex below 2026.2."""
    assert (version in NEEDED[name]) is works


def test_what_is_installed_without_litellm_is_all_else() -> None:
    """docs/guides/frameworks.md gives the command for those whose own versions shut litellm out."""
    page = (ROOT / "docs/guides/frameworks.md").read_text(encoding="utf-8")
    (command,) = re.findall("`pip install (pytest pytest-xdist [^`]*)`", page)

    assert {*command.split(), "pluggy", "litellm", "mcp"} == {*NEEDED}  # pluggy comes with pytest


def test_both_ends_of_the_ranges_are_run() -> None:
    """Once with the oldest of each, once with the newest, wherever a push is looked at."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["versions"]

    assert job["strategy"]["matrix"]["resolution"] == ["lowest-direct", "highest"]
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == (
        "bash .ci/versions ${{ matrix.resolution }}"
    )
    assert "--resolution" in (ROOT / ".ci" / "versions").read_text(encoding="utf-8")

"""Texts of tasks that were planted into prompts are found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_agenteval.loop.contamination import Leak, prompt_leaks
from pytest_agenteval.loop.todays_tasks import suite_with_tasks

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
MEMEX = ROOT / "src" / "pytest_agenteval" / "benchmarks" / "memex"
SUITES = {name: ROOT / "evals" / name for name in ("card", "pkm", "ko")}
LINES_BEFORE = 5


@cache
def prompts() -> Mapping[str, str]:
    """Give the prompts that we ship: those of Memex's agents, and what the Korean suite tells its agent."""
    texts = {str(path.relative_to(MEMEX)): path.read_text("utf-8") for path in MEMEX.glob("*/prompts/*")}
    korean = yaml.safe_load((ROOT / "evals" / "ko" / "suite.yaml").read_text("utf-8"))
    return {**texts, "ko": korean["settings"]["system"]}


def planted(suite: str) -> list[dict[str, Any]]:
    """Give what is planted from one suite."""
    rows = yaml.safe_load((HERE / "planted_leaks.yaml").read_text("utf-8"))
    return [row for row in rows if row["suite"] == suite]


def is_found(row: Mapping[str, Any], leaks: list[Leak]) -> bool:
    """Whether one of a prompt's leaks is what was planted: where it is, added, of its task or of none."""
    task, split = ("", "held_out") if "_ho_" in row["task"] else (row["task"], "dev")
    lines = range(LINES_BEFORE + 1, LINES_BEFORE + 2 + row["text"].count("\n"))
    return any(
        (leak.task, leak.split, leak.added) == (task, split, True) and leak.line in lines for leak in leaks
    )


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A suite of tasks in many scripts."""
    (tmp_path / "suite.yaml").write_text("name: scripts", encoding="utf-8")
    (tmp_path / "tasks.yaml").write_bytes((HERE / "_tasks_in_scripts.yaml").read_bytes())
    return tmp_path


@pytest.mark.parametrize("shipped", [True, False], ids=["shipped suites", "ten scripts"])
def test_nine_of_ten_planted_leaks_are_found(scripts: Path, shipped: bool) -> None:
    """In most disguises; each is planted into the same prompt, of which nothing else is reported."""
    old = prompts()["pkm_agent/prompts/notes.jinja"]
    lines = old.split("\n")
    count, missed, beyond = 0, [], []
    for suite, folder in (SUITES if shipped else {"scripts": scripts}).items():
        rows = planted(suite)
        texts = ([*lines[:LINES_BEFORE], row["text"], *lines[LINES_BEFORE:]] for row in rows)
        new = {str(number): "\n".join(text) for number, text in enumerate(texts)}
        leaks = prompt_leaks({"notes": old}, new, [suite_with_tasks(folder / "suite.yaml")])
        for number, row in enumerate(rows):
            if not is_found(row, [leak for leak in leaks if leak.file == str(number)]):
                missed.append((row["task"], row["disguise"]))
        count += len(rows)
        beyond += [(row["task"], row["disguise"]) for row in rows if row.get("beyond")]
    assert count == (65 if shipped else 35)
    assert len(missed) <= count / 10
    assert set(missed) <= set(beyond)

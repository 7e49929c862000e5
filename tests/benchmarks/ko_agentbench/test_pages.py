"""The pages about the Korean benchmark: whole, and true of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders import GROUPS

DOCS = Path(__file__).parents[3] / "docs"
COMMANDS = {
    "`run_benchmark_with_logging.py`": (
        "levels max-steps timeout full-rollout no-save-logs model use-local quantization device dtype "
        "cache-mode repetitions repetition effort max-completion-tokens tensor-parallel-size "
        "gpu-memory-utilization max-model-len"
    ),
    "`evaluate_model_run.py`": "date model levels judge-models sample quick output format verbose log-file",
}
"""The benchmark's two commands and their options."""


def rows(page: str, heading: str) -> list[list[str]]:
    """Give the rows of the table whose first heading this is."""
    lines = iter((DOCS / page).read_text(encoding="utf-8").splitlines())
    assert any(line.startswith(f"| {heading}") for line in lines), heading
    next(lines)
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_the_benchmarks_commands_has_ours_beside_it(command: str) -> None:
    """Who comes from the benchmark finds each option, and what to say here instead."""
    table = rows("benchmarks/ko-agentbench.md", command)
    ours_by_option = {name: ours for theirs, ours in table for name in re.findall(r"--([a-z-]+)", theirs)}
    assert set(ours_by_option) == set(COMMANDS[command].split())
    assert all(ours_by_option.values())


def test_our_options_in_the_table_are_options(pytestconfig: pytest.Config) -> None:
    """What is to be typed can be typed."""
    ours = " ".join(row[1] for command in COMMANDS for row in rows("benchmarks/ko-agentbench.md", command))
    names = set(re.findall(r"--agent-[a-z-]+", ours))
    assert len(names) >= 7
    for name in names:
        pytestconfig.getoption(name.removeprefix("--").replace("-", "_"))


def test_every_metric_has_its_formula_what_differs_and_when_it_is_undecided() -> None:
    """All labels of all levels, with the level that they belong to, and no cell left empty."""
    table = {row[0]: row[1:] for row in rows("benchmarks/ko-metrics.md", "metric")}
    named = {
        label.strip(): where
        for title in table
        for labels, where in [title.rstrip(")").rsplit("(", 1)]
        for label in labels.split(",")
    }
    expected = {label: level.removeprefix("ko_") for level, members in GROUPS.items() for _, label in members}
    assert set(named) == set(expected)
    for label, where in named.items():
        assert where == "all" or where == expected[label], label
    assert all(len(cells) == 3 and all(cells) for cells in table.values())

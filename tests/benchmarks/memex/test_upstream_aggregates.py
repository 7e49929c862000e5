"""Our figures against Memex's, case by case (tests/oracle/memex_aggregates.yaml)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.compare.scoring.aggregates import mean_score, pass_at_k
from tests.yaml_files import read_yaml

Case = Mapping[str, Any]

ORACLE = read_yaml(Path(__file__).parents[2] / "oracle" / "memex_aggregates.yaml")


def _pass_at_k(case: Case) -> dict[str, Any]:
    return {"value": pass_at_k(len(case["passes"]), sum(case["passes"]), case["k"])}


NOT_REPORTED = {
    "aggregate.pass_caret_k",
    "aggregate.task_pass_rate",
    "aggregate.bucket_pass_rates",
    "aggregate.transition",
}
"""Aggregates that no report of ours shows: runs are compared by exact tests, not by fixed differences."""
FIGURES: dict[str, Callable[[Case], dict[str, Any]]] = {
    "aggregate.trial": lambda case: {"mean": mean_score(score for score, _ in case["scores"])},
    "aggregate.pass_at_k": _pass_at_k,
}


REPORTED = [case for case in ORACLE["cases"] if case["grader"] not in NOT_REPORTED]


@pytest.mark.parametrize("case", REPORTED, ids=lambda case: case["id"])
def test_our_figure_is_memexs(case: Case) -> None:
    """What Memex reports for these trials, our functions report too; they name no ending of a whole trial."""
    figures = FIGURES[case["grader"]](case)
    assert figures.keys() <= case["expect"].keys()
    for name, figure in figures.items():
        assert figure == pytest.approx(case["expect"][name], abs=ORACLE["float_tolerance"]), name


def test_every_aggregate_of_the_oracle_is_exercised() -> None:
    """No kind of case may fall out of the file, and none may be left untested in silence."""
    assert {case["grader"] for case in ORACLE["cases"]} == {*FIGURES, *NOT_REPORTED}

"""Our figures against Memex's, case by case (tests/oracle/memex_aggregates.yaml)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_agenteval.scoring.pass_at_k import (
    pass_at_k,
)
from pytest_agenteval.scoring.trial_score import mean_score

Case = Mapping[str, Any]

ORACLE = yaml.safe_load(
    (Path(__file__).parents[2] / "oracle" / "memex_aggregates.yaml").read_text(encoding="utf-8")
)


def _pass_at_k(case: Case) -> dict[str, Any]:
    return {"value": pass_at_k(len(case["passes"]), sum(case["passes"]), case["k"])}


FIGURES: dict[str, Callable[[Case], dict[str, Any]]] = {
    "aggregate.trial": lambda case: {"mean": mean_score(score for score, _ in case["scores"])},
    "aggregate.pass_at_k": _pass_at_k,
}


@pytest.mark.parametrize("case", ORACLE["cases"], ids=lambda case: case["id"])
def test_our_figure_is_memexs(case: Case) -> None:
    """What Memex reports for these trials, our functions can report too."""
    found = FIGURES[case["grader"]](case)
    for name, expected in case["expect"].items():
        assert found[name] == pytest.approx(expected, abs=ORACLE["float_tolerance"]), name


def test_every_aggregate_of_the_oracle_is_exercised() -> None:
    """No kind of case may fall out of the file, and none may be left untested."""
    assert {case["grader"] for case in ORACLE["cases"]} == set(FIGURES)

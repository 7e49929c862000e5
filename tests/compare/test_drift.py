"""Drift among the runs of a baseline: a run that differs is found, and alike runs are called so."""

from __future__ import annotations

import pytest

from pytest_agenteval.compare.comparison import RunDrift, compare_runs, run_drifts
from pytest_agenteval.compare.pairing import pool_runs
from tests.compare.samples import Scores, side, tasks


def drifts(**runs: Scores) -> dict[str, RunDrift]:
    """Test runs against each other, by name."""
    pooled = pool_runs([side(name, scores) for name, scores in runs.items()])
    return {drift.run: drift for drift in run_drifts(pooled.entries, pooled.run_of)}


def test_the_run_that_differs_is_named() -> None:
    """Each run is tested against the others, exactly: of six tasks one run in three alone scores 0."""
    found = drifts(a=tasks("t", 6, 1.0), b=tasks("t", 6, 1.0), c=tasks("t", 6, 0.0))

    assert [name for name, drift in found.items() if drift.drifted] == ["c"]
    # In each task the 0 is the run's own with a chance of 1 in 3, so c's case is one of 3^6. For a the six
    # scores sum up to 6 where 4 are expected; as far away are sums of 2 and less.
    assert found["c"].p == pytest.approx(1 / 729)
    assert found["a"].p == pytest.approx((2**6 + 1 + 6 * 2 + 15 * 4) / 729)
    assert (found["c"].mean, found["c"].others_mean) == (0.0, 1.0)
    assert (found["a"].mean, found["a"].others_mean) == (1.0, 0.5)


def test_two_runs_are_tested_once() -> None:
    """Six tasks that all fell have p 2/64: above 2.5 %, which two tests would leave to each."""
    found = drifts(a=tasks("t", 6, 1.0), b=tasks("t", 6, 0.0))

    assert [(drift.p, drift.drifted) for drift in found.values()] == [(2 / 64, True)] * 2
    assert not any(drift.drifted for drift in drifts(a=tasks("t", 5, 1.0), b=tasks("t", 5, 0.0)).values())


def test_only_shared_tasks_with_scores_count() -> None:
    """Neither errored trials nor tasks that one run alone has; without any, nothing is known and p is 1."""
    found = drifts(a={"t/x": (0.5, None), "t/own": (0.0,)}, b={"t/x": (1.0,), "t/y": (None,)})
    assert [(drift.mean, drift.others_mean) for drift in found.values()] == [(0.5, 1.0), (1.0, 0.5)]

    apart = drifts(a={"t/x": (0.5,)}, b={"t/y": (1.0,)})
    assert list(apart.values()) == [RunDrift(name, None, None, 1.0, False) for name in ("a", "b")]


def test_a_comparison_counts_the_runs_whose_tasks_it_compares() -> None:
    """All trials of all runs are the old side's; what only one run has says nothing of drift."""
    runs = [side(name, tasks("t", 8, 1.0, 0.0)) for name in ("a", "b")]
    old = pool_runs([*runs, side("c", {"t/elsewhere": (1.0,)})])
    (suite,) = compare_runs(old, side("new", tasks("t", 8, 1.0))).suites

    assert suite.repetitions == ((4, 4), (1, 1))
    assert [drift.run for drift in suite.baseline_runs] == ["a", "b"]
    (alone,) = compare_runs(runs[0], runs[1]).suites
    assert alone.baseline_runs == ()

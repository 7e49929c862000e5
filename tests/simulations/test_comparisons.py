"""Comparisons of simulated suites, with as few draws as a test can spend; CI and a full run draw more."""

from __future__ import annotations

from random import Random

import pytest

from tests.simulations.broken import broken_by_chance
from tests.simulations.contradictions import contradictions
from tests.simulations.drift import drifted
from tests.simulations.family import false_verdicts
from tests.simulations.needed import comparisons
from tests.simulations.power import buckets_found, suites_found
from tests.simulations.score_model import MEAN, Task, diffuse, drawn_suite, focused, moved, true_mean
from tests.simulations.shapes import EQUAL, Shape


def mean_of(suite: list[Task]) -> float:
    """The true mean over a suite's tasks."""
    return sum(map(true_mean, suite)) / len(suite)


def test_tasks_are_as_the_model_says() -> None:
    """On average they score 0.675, 2 of 5 always the same; moving 3 of 10 changes nothing on average."""
    random = Random(3)
    suite = drawn_suite(20_000, random)
    assert mean_of(suite) == pytest.approx(MEAN, abs=0.01)
    assert sum(max(task) == 1 for task in suite) / len(suite) == pytest.approx(0.4, abs=0.02)
    assert mean_of(moved(suite, random)) == pytest.approx(mean_of(suite), abs=0.01)


@pytest.mark.parametrize("rise", [0.05, 0.2])
def test_a_rise_is_as_large_as_it_is_called(rise: float) -> None:
    """Diffuse or focused, the true mean rises by as much; focused leaves some tasks as they were."""
    random = Random(4)
    suite = drawn_suite(60, random)
    everywhere, somewhere = diffuse(suite, rise), focused(suite, rise, random)
    assert mean_of(everywhere) - mean_of(suite) == pytest.approx(rise)
    assert mean_of(somewhere) - mean_of(suite) == pytest.approx(rise)
    assert sum(old != new for old, new in zip(suite, somewhere, strict=True)) < 45


@pytest.mark.parametrize("shape", EQUAL, ids=str)
def test_nothing_is_called_changed_where_nothing_has(shape: Shape) -> None:
    """With 5 % expected, 9 of 40 is out of reach of chance."""
    _, anywhere = false_verdicts(shape, False, 40, seed=1)
    assert anywhere < 9


def test_a_rise_by_a_fifth_is_found() -> None:
    """In 30 tasks x 3 nearly always, in one bucket of nine tasks every other time."""
    assert suites_found("diffuse", 30, 3, 0.2, 40, seed=1) >= 33
    assert suites_found("focused", 30, 3, 0.2, 40, seed=1) >= 28
    assert buckets_found("diffuse", 40, seed=1) >= 10


def test_verdict_and_interval_agree() -> None:
    """Also in the few comparisons that a test can afford, one of which at least has a verdict."""
    against, loose, significant = contradictions(12, seed=1)
    assert (against, loose) == (0, 0)
    assert significant


def test_broken_tasks_are_expected() -> None:
    """In 400 comparisons chance breaks some hundred tasks of 41 x 3, and as many are expected."""
    broken, expected, _ = broken_by_chance(41, 3, 3, 400, seed=1)
    assert expected == pytest.approx(broken, rel=0.3)


def test_the_smallest_visible_change_is_seen_four_times_of_five() -> None:
    """Comparisons of a rise by 0.15 call about as much visible, and see it about as often."""
    seen = comparisons("diffuse", 0.15, 41, 2, 100, seed=1)
    assert seen.visible == pytest.approx(0.15, abs=0.02)
    assert 65 <= seen.significant <= 92


def test_runs_that_differ_are_told_from_those_that_do_not() -> None:
    """Of 40 baselines of three runs at most 8 are called unlike; with one run 0.2 better, at least 30."""
    assert drifted("pass or fail", 3, 3, 0.0, 40, seed=1) < 9
    assert drifted("pass or fail", 3, 3, 0.2, 40, seed=1) >= 30

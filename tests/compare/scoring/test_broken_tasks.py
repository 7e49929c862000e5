"""Broken tasks are named from three trials on, beside how many chance alone would break."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from pytest_agenteval.compare.scoring.aggregates import PairedPasses, expected_broken, is_broken

ALL, NONE = [True] * 3, [False] * 3


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        (ALL, NONE, True),
        ([True] * 3, [False] * 5, True),
        (ALL, [False, False, True], False),
        ([True, True, False], NONE, False),
        (NONE, ALL, False),
        ([True] * 2, NONE, False),
        (ALL, [False] * 2, False),
        ([], [], False),
    ],
)
def test_broken_is_all_before_and_none_now_from_three_trials_on(
    old: list[bool], new: list[bool], broken: bool
) -> None:
    """Two trials cry wolf, a single pass on the new side or miss on the old one is not broken."""
    assert is_broken(old, new) is broken


def test_only_as_many_passes_as_old_trials_could_break_a_task() -> None:
    """Three of six passed: one of the twenty ways to call three of them old breaks the task."""
    wavering = ([True, False, True], [False, True, False])
    assert expected_broken([wavering]) == pytest.approx(1 / 20)
    assert expected_broken([wavering, (ALL, NONE), (NONE, ALL)]) == pytest.approx(3 / 20)
    assert expected_broken([(ALL, ALL), (NONE, NONE), (ALL, [True, False, False])]) == 0


def test_fewer_than_three_trials_expect_nothing_as_nothing_is_named() -> None:
    """What cannot be named broken is not expected either."""
    assert expected_broken([([True, False], [True, False]), ([True] * 3, [False] * 2)]) == 0


@pytest.mark.parametrize(("old", "new"), [(3, 3), (3, 4), (5, 3)])
def test_the_mean_over_all_outcomes_is_the_chance_to_break(old: int, new: int) -> None:
    """With a rate p of passing, p^old (1 - p)^new is the truth; the estimate, from counts only, hits it."""
    rate = 0.6
    mean = 0.0
    for outcome in product([True, False], repeat=old + new):
        chance = rate ** sum(outcome) * (1 - rate) ** (old + new - sum(outcome))
        mean += chance * expected_broken([(outcome[:old], outcome[old:])])
    assert mean == pytest.approx(rate**old * (1 - rate) ** new)


def test_simulated_tasks_break_as_often_as_expected() -> None:
    """Over many unchanged tasks with three trials a side, broken ones and expected ones are as many."""
    random = Random(11)

    def task() -> PairedPasses:
        rate = random.betavariate(2, 2)
        passes = [random.random() < rate for _ in range(6)]
        return passes[:3], passes[3:]

    tasks = [task() for _ in range(20_000)]
    broken = sum(is_broken(*pair) for pair in tasks)
    assert expected_broken(tasks) == pytest.approx(broken, rel=0.15)

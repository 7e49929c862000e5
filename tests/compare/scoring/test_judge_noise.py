"""The noise of a judge that is asked again."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.agreement import judge_noise, share_flipping, spread_within
from pytest_agenteval.text.errors import UndefinedStatistic

SCORES = st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=4), min_size=1, max_size=6)


def test_spread_worked_by_hand() -> None:
    """Examples of 0/1 and 0.2/0.4/0.6: squares 0.5 and 0.08 over 1 + 2 degrees of freedom."""
    assert spread_within([[0.0, 1.0], [0.2, 0.4, 0.6]]) == pytest.approx(math.sqrt(0.58 / 3))


def test_spread_finds_the_noise_that_was_put_in() -> None:
    """Whatever the examples' own level, the standard deviation of the noise comes back."""
    random = Random(11)
    examples = [[level + random.gauss(0, 0.1) for _ in range(5)] for level in (0.0, 5.0) * 200]
    assert spread_within(examples) == pytest.approx(0.1, rel=0.05)


def test_flips_worked_by_hand() -> None:
    """One of three examples has asks on both sides of 0.5; reaching it exactly is reaching it."""
    assert share_flipping([[0.4, 0.6], [0.5, 0.9], [0.1, 0.2, 0.0]], 0.5) == pytest.approx(1 / 3)


@given(SCORES)
def test_a_judge_that_repeats_itself_has_no_noise(examples: list[list[float]]) -> None:
    """The same score in every ask is no spread and no flip; any other has 0 <= flips <= 1 and spread >= 0."""
    steady = judge_noise([[scores[0]] * len(scores) for scores in examples], 0.5)
    assert (steady.spread.value, steady.flips.value) == (pytest.approx(0, abs=1e-9), 0)
    assert spread_within(examples) >= 0
    assert 0 <= share_flipping(examples, 0.5) <= 1


def test_only_what_was_scored_twice_tells_of_noise() -> None:
    """An ask without a score is left out, and with one score left an example says nothing of noise."""
    found = judge_noise([[0.2, None], [None, None], [0.4, 0.6, None]], 0.5)
    assert found.examples == 1
    assert found.flips.value == 1
    nothing = judge_noise([[0.2, None]], 0.5)
    assert (nothing.examples, nothing.spread.value, nothing.flips.value) == (0, None, None)
    assert nothing.spread.reason == "no example was scored twice"
    with pytest.raises(UndefinedStatistic):
        spread_within([[0.2]])

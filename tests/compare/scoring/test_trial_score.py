"""The weighted trial score, and how it treats what is undecided."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.aggregates import mean_score, trial_score

SCORES = st.floats(0, 1)
WEIGHTS = st.floats(1e-6, 1e6)
DECIDED = st.lists(st.tuples(SCORES, WEIGHTS), min_size=1, max_size=20)
GRADES = st.lists(st.tuples(st.none() | SCORES, WEIGHTS), max_size=20)


def test_a_heavier_grade_counts_more() -> None:
    """The score is Σ weight·score / Σ weight."""
    assert trial_score([(1.0, 3.0), (0.0, 1.0)]) == 0.75


def test_an_undecided_grade_does_not_lower_the_score() -> None:
    """An undecided grade is in neither sum."""
    assert trial_score([(0.5, 1.0), (None, 100.0)]) == 0.5


@pytest.mark.parametrize("grades", [[], [(None, 1.0)], [(None, 1.0), (None, 2.0)], [(1.0, 0.0)]])
def test_nothing_decided_is_no_score_and_not_zero(grades: list[tuple[float | None, float]]) -> None:
    """A trial about which nothing is known has the score None."""
    assert trial_score(grades) is None


@pytest.mark.parametrize("grade", [(1.1, 1.0), (-0.1, 1.0), (math.nan, 1.0), (1.0, -1.0), (1.0, math.inf)])
def test_numbers_that_are_no_scores_are_refused(grade: tuple[float, float]) -> None:
    """A score outside 0..1 or a weight below 0 is a mistake and never averaged in silence."""
    with pytest.raises(ValueError, match="a number"):
        trial_score([grade])


@given(DECIDED)
def test_the_score_lies_between_the_lowest_and_the_highest_grade(grades: list[tuple[float, float]]) -> None:
    """Averaging invents nothing: rounding may not lift a score past the best grade, or below the worst."""
    score = trial_score(grades)
    assert score is not None
    assert min(s for s, _ in grades) <= score <= max(s for s, _ in grades)


@given(GRADES, st.randoms())
def test_the_order_of_the_grades_does_not_matter(
    grades: list[tuple[float | None, float]], random: Random
) -> None:
    """Shuffled grades give the very same number."""
    shuffled = list(grades)
    random.shuffle(shuffled)
    assert trial_score(shuffled) == trial_score(grades)


@given(DECIDED, st.floats(1e-3, 1e3))
def test_only_the_proportion_of_the_weights_matters(grades: list[tuple[float, float]], factor: float) -> None:
    """Weights 1 and 3 mean what 10 and 30 mean."""
    scaled = [(score, weight * factor) for score, weight in grades]
    assert trial_score(scaled) == pytest.approx(trial_score(grades), abs=1e-12)


@given(st.lists(st.none() | SCORES, max_size=20))
def test_the_mean_is_the_trial_score_with_equal_weights(scores: list[float | None]) -> None:
    """mean_score and trial_score agree where the weights say nothing."""
    assert mean_score(scores) == pytest.approx(trial_score((score, 1.0) for score in scores), abs=1e-12)


def test_the_mean_of_equal_scores_is_that_score() -> None:
    """Three times 0.7 reaches a threshold of 0.7."""
    assert mean_score([0.7, 0.7, 0.7]) == 0.7

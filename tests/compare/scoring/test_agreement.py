"""Scores against labels: error, tolerance, kappa, and all figures of a calibration together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.agreement import (
    METRICS,
    STEPS,
    Pair,
    Weights,
    agreement,
    categories_of,
    category_pairs,
    confusion,
    mean_absolute_error,
    reaches,
    share_within,
    weighted_kappa,
)
from pytest_agenteval.compare.scoring.intervals import BootstrapSettings
from pytest_agenteval.text.errors import UndefinedStatistic

FEW = BootstrapSettings(draws=40)
SCORES = st.sampled_from(STEPS)
PAIRS = st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=40)
WEIGHTS: tuple[Weights, ...] = ("linear", "quadratic")
LABELS = [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]


def values_of(scores: list[float | None]) -> dict[str, float | None]:
    """Give every figure of one judge who scored LABELS so."""
    found = agreement([[pair] for pair in zip(LABELS, scores, strict=True)], how=FEW)
    return {name: figure.value for name, figure in found.figures.items()}


@given(PAIRS, st.sampled_from(WEIGHTS))
def test_kappa_is_what_defines_it(pairs: list[Pair], weights: Weights) -> None:
    """Weighed disagreement over that of chance, off 1 (Cohen 1968); where it is 0 / 0, ours is undefined."""
    try:
        found = weighted_kappa(category_pairs(pairs, STEPS), weights)
    except UndefinedStatistic:
        assert len({side for pair in pairs for side in pair}) == 1
        return
    shares = np.array(confusion(pairs, STEPS).rows) / len(pairs)
    steps = np.arange(len(STEPS))
    away = np.abs(steps[:, None] - steps) ** (1 if weights == "linear" else 2)
    chance = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    assert found == pytest.approx(1 - (away * shares).sum() / (away * chance).sum(), abs=1e-9)


def test_kappa_worked_by_hand() -> None:
    """Margins 2/2 and 3/1 over two categories, three of four agree: (3/4 - 1/2) / (1 - 1/2) = 1/2."""
    pairs = [(0.0, 0.0), (0.0, 0.0), (1.0, 1.0), (1.0, 0.0)]
    for weights in WEIGHTS:
        assert weighted_kappa(category_pairs(pairs, (0.0, 1.0)), weights) == pytest.approx(0.5)


@given(PAIRS, st.sampled_from(WEIGHTS))
def test_kappa_does_not_care_which_side_is_which(pairs: list[Pair], weights: Weights) -> None:
    """Both sides are raters alike, and pairs come in any order; agreement is never above 1."""
    try:
        value = weighted_kappa(category_pairs(pairs, STEPS), weights)
    except UndefinedStatistic:
        return
    turned = [(y, x) for x, y in reversed(pairs)]
    assert weighted_kappa(category_pairs(turned, STEPS), weights) == pytest.approx(value)
    assert value <= 1


def test_categories_are_the_labels_own_or_five_steps() -> None:
    """Labels in a few steps are categories as they are; many different numbers are put into five."""
    assert categories_of([1, 0, 0.5, 1]) == (0, 0.5, 1)
    assert categories_of([place / 10 for place in range(11)]) == STEPS
    assert categories_of([0.5, 0.5]) == STEPS


def test_a_score_goes_to_the_nearest_category_and_the_lower_one_halfway() -> None:
    """Rows are labels, columns scores; every pair is counted once."""
    table = confusion([(0.0, 0.24), (0.0, 0.25), (0.5, 0.26), (1.0, 0.9), (1.0, 0.0)], (0.0, 0.5, 1.0))
    assert table.rows == ((2, 0, 0), (0, 1, 0), (1, 0, 1))


def test_error_and_tolerance_worked_by_hand() -> None:
    """Distances 0, 0.15 and 0.5: a mean of 0.65/3, and two of three within 0.15, the end included."""
    pairs = [(1.0, 1.0), (0.8, 0.65), (0.0, 0.5)]
    assert mean_absolute_error(pairs) == pytest.approx(0.65 / 3)
    assert share_within(pairs, 0.15) == pytest.approx(2 / 3)
    for statistic in (mean_absolute_error, share_within):
        with pytest.raises(UndefinedStatistic, match="no pairs"):
            statistic([])


def test_a_perfect_judge() -> None:
    """Who says what the labels say has every figure at its best."""
    values = values_of(list(LABELS))
    assert values.pop("mae") == 0
    assert values == pytest.approx(dict.fromkeys(values, 1.0))


def test_an_inverted_judge() -> None:
    """Who says the opposite has correlations of -1, and agreement below chance."""
    values = values_of([1 - label for label in LABELS])
    assert values["spearman"] == pytest.approx(-1)
    assert values["pearson"] == pytest.approx(-1)
    assert values["mae"] == pytest.approx(6 / 7)
    assert values["within"] == pytest.approx(1 / 7)
    for name in ("kappa", "kappa_linear", "alpha", "alpha_ordinal", "alpha_nominal"):
        assert values[name] is not None
        assert values[name] < 0  # type: ignore[operator]  # just seen


def test_a_constant_judge() -> None:
    """Who always says the same correlates with nothing; its kappa is chance, and its error is known."""
    found = agreement([[(label, 1.0)] for label in LABELS], how=FEW).figures
    for name in ("spearman", "pearson"):
        assert found[name].value is None
        assert found[name].interval is None
        assert found[name].reason.startswith("every score is 1")
    assert found["kappa"].value == 0
    assert found["mae"].value == pytest.approx(3.5 / 7)


def test_a_score_that_was_not_given_is_left_out_and_counted() -> None:
    """An undecided score is no zero: the other pairs are compared, and the share decided is shown."""
    scores = [None, 0.0, 0.0, None, 1.0, 1.0, 1.0]
    found = agreement([[pair] for pair in zip(LABELS, scores, strict=True)], how=FEW)
    assert (found.examples, found.scored, found.pairs) == (7, 5, 5)
    assert found.figures["decided"].value == pytest.approx(5 / 7)
    assert found.figures["pearson"].value == pytest.approx(1)


def test_nothing_decided_is_nothing_known() -> None:
    """Where no score was given every figure is undefined with its reason, and nothing was decided."""
    found = agreement([[(label, None)] for label in LABELS], how=FEW)
    values = {name: figure.value for name, figure in found.figures.items()}
    assert values.pop("decided") == 0
    assert set(values.values()) == {None}
    assert all(figure.reason for name, figure in found.figures.items() if name != "decided")


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.tuples(SCORES, st.none() | SCORES), max_size=3), max_size=12))
def test_every_figure_lies_in_its_bounds_and_its_interval(
    examples: list[list[tuple[float, float | None]]],
) -> None:
    """Shares and errors in 0..1, correlations in -1..1, coefficients at most 1, low never above high."""
    found = agreement(examples, how=FEW)
    assert set(found.figures) == set(METRICS)
    assert sum(map(sum, found.confusion.rows)) == found.pairs
    for name, figure in found.figures.items():
        if figure.value is None:
            assert figure.reason
            continue
        least = 0 if name in ("mae", "within", "decided") else -1 if name in ("spearman", "pearson") else -99
        assert least <= figure.value <= 1 + 1e-12
        if figure.interval is not None:
            assert least - 1e-12 <= figure.interval.low <= figure.interval.high <= 1 + 1e-12
        else:
            assert figure.reason


def test_a_threshold_is_reached_from_its_better_side() -> None:
    """An error has to be as small as its threshold, everything else as large; rounding is forgiven."""
    assert reaches("spearman", 0.7, 0.7)
    assert reaches("spearman", 0.1 + 0.2, 0.3)
    assert not reaches("spearman", 0.69, 0.7)
    assert reaches("mae", 0.2, 0.2)
    assert not reaches("mae", 0.21, 0.2)

"""Scores against labels: correlations, kappa, alpha, errors, and the noise of a judge."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.agreement import (
    METRICS,
    STEPS,
    MeasurementLevel,
    Pair,
    Weights,
    agreement,
    average_ranks,
    categories_of,
    category_pairs,
    confusion,
    judge_noise,
    krippendorff_alpha,
    mean_absolute_error,
    pearson,
    reaches,
    share_flipping,
    share_within,
    spearman,
    spread_within,
    weighted_kappa,
)
from pytest_agenteval.compare.scoring.intervals import BootstrapSettings
from pytest_agenteval.text.errors import UndefinedStatistic

FEW = BootstrapSettings(draws=40)
STEP_SCORES = st.sampled_from(STEPS)
STEP_PAIRS = st.lists(st.tuples(STEP_SCORES, STEP_SCORES), min_size=1, max_size=40)
WEIGHTS: tuple[Weights, ...] = ("linear", "quadratic")
LABELS = [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0]


def values_of(scores: list[float | None]) -> dict[str, float | None]:
    """Give every figure of one judge who scored LABELS so."""
    found = agreement([[pair] for pair in zip(LABELS, scores, strict=True)], how=FEW)
    return {name: figure.value for name, figure in found.figures.items()}


@given(STEP_PAIRS, st.sampled_from(WEIGHTS))
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
@given(st.lists(st.lists(st.tuples(STEP_SCORES, st.none() | STEP_SCORES), max_size=3), max_size=12))
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


GRADED = st.integers(0, 64).map(lambda number: number / 64)
GRADED_PAIRS = st.lists(st.tuples(GRADED, GRADED), min_size=2, max_size=40)


def oracle(name: str) -> Any:
    """Import a library that only checks our figures, or skip."""
    return pytest.importorskip(name, reason=f"{name} is this test's oracle: pip install scipy")


def varied(pairs: list[Pair]) -> bool:
    """Whether neither side is the same for all."""
    return len({x for x, _ in pairs}) > 1 and len({y for _, y in pairs}) > 1


@settings(deadline=None)  # the oracle's import takes its time
@given(GRADED_PAIRS.filter(varied))
def test_both_are_what_scipy_says(pairs: list[Pair]) -> None:
    """scipy.stats gives the same figures, ties and all."""
    stats = oracle("scipy.stats")
    xs, ys = zip(*pairs, strict=True)
    assert pearson(pairs) == pytest.approx(float(stats.pearsonr(xs, ys).statistic), abs=1e-9)
    assert spearman(pairs) == pytest.approx(float(stats.spearmanr(xs, ys).statistic), abs=1e-9)


@settings(deadline=None)
@given(st.lists(GRADED, max_size=40))
def test_ranks_are_what_scipy_says(values: list[float]) -> None:
    """Equal values share the average of the ranks they take together."""
    assert average_ranks(values) == pytest.approx(oracle("scipy.stats").rankdata(values).tolist())


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e150, 1e300])
def test_neither_tiny_nor_huge_numbers_break_the_arithmetic(scale: float) -> None:
    """A scale changes nothing, though squares of such numbers vanish or overflow."""
    pairs = [(1.0, 3.0), (2.0, 1.0), (4.0, 5.0), (5.0, 4.0)]
    assert pearson([(x * scale, y * scale) for x, y in pairs]) == pytest.approx(pearson(pairs))


@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "fewer than two pairs"),
        ([(0.5, 0.5)], "fewer than two pairs"),
        ([(0.5, 0.1), (0.5, 0.9)], "every label is 0.5"),
        ([(0.1, 1.0), (0.9, 1.0)], "every score is 1"),
        ([(0.1, 1.0), (0.9, math.nextafter(1.0, 0.0))], ""),
    ],
)
def test_what_cannot_go_up_and_down_has_no_correlation(pairs: list[Pair], why: str) -> None:
    """Too few pairs, or a side that never changes, are undefined, with the reason; 0 would be a claim."""
    if not why:
        assert spearman(pairs) == pytest.approx(-1)
        return
    for correlation in (pearson, spearman):
        with pytest.raises(UndefinedStatistic, match=why):
            correlation(pairs)


LEVELS: tuple[MeasurementLevel, ...] = ("nominal", "ordinal", "interval")
CODES = st.none() | st.integers(0, 5).map(float)
UNITS = st.lists(st.lists(CODES, max_size=5), max_size=12)


def units_of(*coders: str) -> list[list[float | None]]:
    """Turn one line for each coder, a digit for each unit and a dot where it says nothing, into units."""
    columns = zip(*coders, strict=True)
    return [[None if mark == "." else float(mark) for mark in column] for column in columns]


FOUR_OBSERVERS = units_of("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


def by_definition(units: list[list[float | None]], level: MeasurementLevel) -> float | None:
    """Give alpha as it is defined: over the coincidence matrix, cell by cell; None where it is undefined."""
    coincidences: Counter[tuple[float, float]] = Counter()
    weights: dict[tuple[float, float], float] = {}
    for unit in units:
        known = [value for value in unit if value is not None]
        for a, b in permutations(range(len(known)), 2):
            pair = (known[a], known[b])
            coincidences[pair] += 1
            weights[pair] = weights.get(pair, 0.0) + 1 / (len(known) - 1)
    margins: Counter[float] = Counter()
    for (first, _), weight in weights.items():
        margins[first] += weight  # type: ignore[assignment]  # a sum of shares that is whole in the end
    total = sum(margins.values())
    values = sorted(margins)

    def apart(c: float, k: float) -> float:
        if level == "nominal":
            return float(c != k)
        if level == "interval":
            return (c - k) ** 2
        low, high = min(c, k), max(c, k)
        between = sum(margins[g] for g in values if low <= g <= high)
        return (between - (margins[c] + margins[k]) / 2) ** 2 if c != k else 0.0

    expected = sum(margins[c] * margins[k] * apart(c, k) for c in values for k in values)
    if not expected:
        return None
    observed = sum(weight * apart(*pair) for pair, weight in weights.items())
    return float(1 - (total - 1) * observed / expected)


@given(UNITS, st.sampled_from(LEVELS))
def test_it_is_the_ratio_of_disagreements_that_defines_it(
    units: list[list[float | None]], level: MeasurementLevel
) -> None:
    """The short forms used here give what the coincidence matrix gives, missing values included."""
    expected = by_definition(units, level)
    if expected is None:
        with pytest.raises(UndefinedStatistic):
            krippendorff_alpha(units, level)
    else:
        assert krippendorff_alpha(units, level) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_four_observers_with_missing_values(level: MeasurementLevel, published: float) -> None:
    """The figures that Krippendorff (2011, sections C and D) gives for his own example."""
    assert krippendorff_alpha(FOUR_OBSERVERS, level) == pytest.approx(published, abs=0.0005)


@pytest.mark.parametrize("units", [[], [[1.0]], [[1.0, None], [None, 2.0]]])
def test_what_cannot_be_paired_has_no_alpha(units: list[list[float | None]]) -> None:
    """Without two values of one thing there is nothing that could agree."""
    with pytest.raises(UndefinedStatistic, match="no example has two scores"):
        krippendorff_alpha(units)


ASKS = st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=4), min_size=1, max_size=6)


def test_spread_worked_by_hand() -> None:
    """Examples of 0/1 and 0.2/0.4/0.6: squares 0.5 and 0.08 over 1 + 2 degrees of freedom."""
    assert spread_within([[0.0, 1.0], [0.2, 0.4, 0.6]]) == pytest.approx(math.sqrt(0.58 / 3))


def test_flips_worked_by_hand() -> None:
    """One of three examples has asks on both sides of 0.5; reaching it exactly is reaching it."""
    assert share_flipping([[0.4, 0.6], [0.5, 0.9], [0.1, 0.2, 0.0]], 0.5) == pytest.approx(1 / 3)


@given(ASKS)
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

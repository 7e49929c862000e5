"""Krippendorff's alpha, held to its definition and to the example that its author works out."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.agreement import MeasurementLevel, krippendorff_alpha
from pytest_agenteval.text.errors import UndefinedStatistic

LEVELS: tuple[MeasurementLevel, ...] = ("nominal", "ordinal", "interval")
SCORES = st.none() | st.integers(0, 5).map(float)
UNITS = st.lists(st.lists(SCORES, max_size=5), max_size=12)


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


def test_two_coders_and_yes_or_no_worked_by_hand() -> None:
    """Ten units, four of them split: D_o = 8/20, margins 14 and 6, so 1 - 19·8/(2·14·6) = 0.095.

    (Krippendorff 2011, section A, has these margins and this figure.)
    """
    units = units_of("0100000000", "1110010100")
    for level in LEVELS:
        assert krippendorff_alpha(units, level) == pytest.approx(1 - 19 * 8 / (2 * 14 * 6))


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_four_observers_with_missing_values(level: MeasurementLevel, published: float) -> None:
    """The figures that Krippendorff (2011, sections C and D) gives for his own example."""
    assert krippendorff_alpha(FOUR_OBSERVERS, level) == pytest.approx(published, abs=0.0005)


@given(UNITS, st.sampled_from(LEVELS), st.integers())
def test_order_and_names_of_coders_do_not_matter(
    units: list[list[float | None]], level: MeasurementLevel, seed: int
) -> None:
    """Units and their values come in any order; a unit with one value says nothing; alpha is at most 1."""
    try:
        value = krippendorff_alpha(units, level)
    except UndefinedStatistic:
        return
    random = Random(seed)
    shuffled = [random.sample(unit, len(unit)) for unit in random.sample(units, len(units))]
    assert krippendorff_alpha([*shuffled, [3.0, None]], level) == pytest.approx(value)
    assert value <= 1


@given(st.lists(st.integers(0, 5).map(float), min_size=2), st.sampled_from(LEVELS))
def test_perfect_agreement_is_one(values: list[float], level: MeasurementLevel) -> None:
    """Coders who always agree, on more than one value, have alpha 1; on one value it is undefined."""
    units = [[value, value, value] for value in values]
    if len(set(values)) > 1:
        assert krippendorff_alpha(units, level) == 1
    else:
        with pytest.raises(UndefinedStatistic, match="no disagreement could have been expected"):
            krippendorff_alpha(units, level)


@pytest.mark.parametrize("units", [[], [[1.0]], [[1.0, None], [None, 2.0]]])
def test_what_cannot_be_paired_has_no_alpha(units: list[list[float | None]]) -> None:
    """Without two values of one thing there is nothing that could agree."""
    with pytest.raises(UndefinedStatistic, match="no example has two scores"):
        krippendorff_alpha(units)

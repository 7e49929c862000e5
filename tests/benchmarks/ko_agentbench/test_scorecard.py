"""The one figure for a model: what it is made of, when there is none, how sure it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from pytest_agenteval.benchmarks.ko_agentbench.graders import LEVELS
from pytest_agenteval.benchmarks.ko_agentbench.scorecard import (
    LEVEL_METRICS,
    PARTS,
    WEIGHTS,
    TrialMetric,
    WeightedMean,
    composite,
    level_means,
    level_shares,
    read_weights,
)
from pytest_agenteval.reports.scorecard import Total

VALUES = {"L1": 0.9, "L2": 0.6, "L3": 0.3, "L4": 0.1, "L5": 0.5, "L6": 0.4, "L7": 0.8}


def levels(scores: Mapping[str, Sequence[float]]) -> Mapping[str, WeightedMean]:
    """Work out levels whose metrics all say the same of each task."""
    return level_means(
        TrialMetric(name, metric, task, score)
        for name, values in scores.items()
        for metric in LEVEL_METRICS[name]
        for task, score in enumerate(values)
    )


def ends(total: Total) -> tuple[float, float]:
    """Give the ends of a composite's interval."""
    assert total.interval is not None
    return total.interval.low, total.interval.high


def parts(total: Total) -> dict[str, float | None]:
    """Give a composite's parts by name."""
    return {part.name: part.value for part in total.parts}


def test_the_composite_is_the_documented_mean_of_levels() -> None:
    """0.40 of the mean of L1 to L3, 0.20 of L5, 0.25 of L6, 0.15 of L7; L4 stands beside it."""
    total = composite(levels({name: [value] for name, value in VALUES.items()}))

    assert total.value == pytest.approx(0.40 * 0.6 + 0.20 * 0.5 + 0.25 * 0.4 + 0.15 * 0.8)
    assert parts(total) == pytest.approx({"basic": 0.6, "robustness": 0.5, "efficiency": 0.4, "context": 0.8})
    assert (total.beside, total.missing) == ("L4", ())


def test_a_level_below_nothing_counts_as_it_is() -> None:
    """The published L1 to L7 of the one model whose rate of repeats is 0.30: 0.561, and never 0.628."""
    published = {"L1": 0.69319, "L2": 1.0, "L3": 0.6, "L4": 0.56667, "L5": 0.36879, "L6": 0.30665, "L7": 0.7}
    deep = {name: [value] * 2 for name, value in published.items()} | {"L6": [-3.0, -1.0]}

    assert composite(levels({name: [value] for name, value in published.items()})).value == pytest.approx(
        0.561, abs=5e-4
    )
    total = composite(levels(deep))
    assert parts(total)["efficiency"] == -2.0
    assert total.value == pytest.approx(0.561 + 0.25 * (-2 - 0.30665), abs=5e-4)
    assert total.interval is None


@pytest.mark.parametrize("missing", [("L2",), ("L5",), ("L1", "L7")])
def test_a_missing_level_leaves_no_composite(missing: tuple[str, ...]) -> None:
    """It is named, and the others are never made to stand for it."""
    total = composite(levels({name: [value] for name, value in VALUES.items() if name not in missing}))

    assert (total.value, total.interval, total.missing) == (None, None, missing)
    assert all((parts(total)[part] is None) == bool({*names} & {*missing}) for part, names in PARTS.items())


def test_the_level_beside_it_is_not_missed() -> None:
    """Without L4 there is a composite, and without a weight for L7 there is one without L7."""
    without = levels({name: [value] for name, value in VALUES.items() if name not in ("L4", "L7")})
    weights = {"basic": 0.5, "robustness": 0.25, "efficiency": 0.25, "context": 0.0}

    total = composite(without, weights)

    assert total.value == pytest.approx(0.5 * 0.6 + 0.25 * 0.5 + 0.25 * 0.4)
    assert (total.beside, total.missing) == ("L4", ())
    assert composite(without).missing == ("L7",)


@pytest.mark.parametrize(
    "text",
    [
        "basic=0.5,robustness=0.2,efficiency=0.25,context=0.15",
        "basic=1",
        "basic=0.4,robustness=0.2,efficiency=0.25,context=0.15,planning=0",
        "basic=-0.4,robustness=0.2,efficiency=0.25,context=0.95",
        "basic=nan,robustness=0.2,efficiency=0.25,context=0.15",
        "basic 0.4",
    ],
)
def test_weights_that_make_no_mean_are_refused(text: str) -> None:
    """Each part has a weight, none is negative, and together they are 1."""
    with pytest.raises(ValueError, match="expected basic=N,.* that sum to 1; found '" + text):
        read_weights(text)


def test_the_documented_weights_are_weights() -> None:
    """They sum to 1, by part and by level."""
    assert read_weights("basic=0.4,robustness=0.2,efficiency=0.25,context=0.15") == WEIGHTS
    assert sum(level_shares(WEIGHTS).values()) == pytest.approx(1)
    assert set(level_shares(WEIGHTS)) == {*LEVELS} - {"L4"}


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_the_composite_lies_in_its_interval_at_the_ends_of_the_scale(score: float) -> None:
    """Full marks in every task are a composite of exactly 1 that may still be luck."""
    total = composite(levels({name: [score] * 10 for name in LEVELS}))

    assert total.value == score
    assert total.interval is not None
    assert abs(score - 0.5) == pytest.approx(max(abs(end - 0.5) for end in ends(total)), abs=1e-4)
    assert 0.02 < total.interval.high - total.interval.low < 0.05


def test_a_level_of_four_tasks_leaves_the_composite_without_interval() -> None:
    """What has no interval of its own gives none to what it is a part of."""
    total = composite(levels({name: [0.2, 0.7] * 5 for name in LEVELS if name != "L6"} | {"L6": [0.5] * 4}))

    assert total.value is not None
    assert total.interval is None


def test_the_interval_is_what_drawing_tasks_anew_gives() -> None:
    """With many tasks in each level, brute force finds the same ends: every level's tasks drawn by lot."""
    random = Random(5)
    scores = {name: [random.betavariate(2, 1 + at) for _ in range(60)] for at, name in enumerate(LEVELS)}
    shares = level_shares(WEIGHTS)

    def drawn() -> float:
        return sum(share * sum(random.choices(scores[name], k=60)) / 60 for name, share in shares.items())

    values = sorted(drawn() for _ in range(4000))
    total = composite(levels(scores))

    assert total.interval is not None
    assert total.interval.low == pytest.approx(values[100], abs=0.004)
    assert total.interval.high == pytest.approx(values[3899], abs=0.004)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """In 400 benchmarks of the original's sizes whose tasks mostly score 0 or 1: 95 times of 100, or more."""
    random = Random(8)
    sizes = {"L1": 11, "L2": 15, "L3": 10, "L4": 10, "L5": 20, "L6": 15, "L7": 10}
    truth = {"L1": 0.7, "L2": 0.9, "L3": 0.6, "L4": 0.7, "L5": 0.4, "L6": 0.5, "L7": 0.8}
    composed = sum(share * truth[name] for name, share in level_shares(WEIGHTS).items())
    held = 0
    for _ in range(400):
        run = {name: [float(random.random() < truth[name]) for _ in range(sizes[name])] for name in LEVELS}
        interval = composite(levels(run)).interval
        assert interval is not None
        held += interval.low <= composed <= interval.high

    assert 0.93 < held / 400 < 0.985

"""Comparisons of simulated suites, with as few draws as a test can spend; CI and a full run draw more."""

from __future__ import annotations

from random import Random

import pytest

from pytest_agenteval.compare.scoring.intervals import Interval
from pytest_agenteval.compare.verdict import Change, Verdict
from tests.extended.simulations.broken import broken_by_chance
from tests.extended.simulations.designs import BUCKETS, contradicts, false_verdicts
from tests.extended.simulations.drift import PASS_FAIL, drifted
from tests.extended.simulations.not_worse import BREAKS, claims_and_coverage
from tests.extended.simulations.power import buckets_found, suites_found
from tests.extended.simulations.score_model import (
    MEAN,
    MODELS,
    Task,
    diffuse,
    drawn_suite,
    fallen,
    focused,
    moved,
    risen,
    true_mean,
)
from tests.extended.simulations.shapes import MANY_SMALL, Shape


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


@pytest.mark.parametrize("name", MODELS)
def test_models_and_their_changes_have_the_means_that_they_say(name: str) -> None:
    """Of 20,000 tasks; a tenth of what tasks score is lost, or of what they miss is won, in either way."""
    random, model = Random(3), MODELS[name]
    suite = model.suite(20_000, random)
    assert mean_of(suite) == pytest.approx(model.mean, abs=0.015)
    for effect in ("diffuse", "focused"):
        lost = mean_of(suite) - mean_of(fallen(suite, effect, 0.1, random))
        won = mean_of(risen(suite, effect, 0.1, random)) - mean_of(suite)
        assert lost == pytest.approx(0.1 * model.mean, abs=0.01)
        assert won == pytest.approx(0.1 * (1 - model.mean), abs=0.01)


@pytest.mark.parametrize("shape", [Shape(MANY_SMALL, 3, 3), Shape(BUCKETS[15], 10, 1)], ids=str)
@pytest.mark.parametrize("model", ["quarters", "pass/fail, all p = .95"])
def test_nothing_is_called_changed_where_nothing_has(model: str, shape: Shape) -> None:
    """With 2.5 % of suites and 5 % of anything expected, 6 and 9 of 40 are out of reach of chance."""
    counts = false_verdicts("nothing changed", model, shape, 40, seed=1)
    assert counts.suite < 6
    assert counts.anything < 9
    assert not counts.contradictions


def test_breaks_that_were_not_seen_are_not_excluded() -> None:
    """Of 15 tasks that break one time in 20 nearly half show none: no claim, and intervals hold the truth."""
    counts = claims_and_coverage(BREAKS, "always passes", Shape(BUCKETS[15], 1, 1), 40, seed=1)
    assert (counts.claims, counts.contradictions) == (0, 0)
    assert counts.held >= 35


def test_a_rise_by_a_fifth_is_found() -> None:
    """In 30 tasks x 3 nearly always, in one bucket of nine tasks every other time."""
    assert suites_found("quarters", "diffuse", 30, 3, 0.2, 40, seed=1).like_these >= 33
    assert suites_found("quarters", "focused", 30, 3, 0.2, 40, seed=1).these >= 33
    assert buckets_found("quarters", "diffuse", 40, seed=1) >= 10


@pytest.mark.parametrize(
    ("low", "high", "verdict", "like_these", "denies"),
    [
        (0.1, 0.3, "better", None, False),
        (-0.1, 0.3, "better", None, True),
        (0.1, 0.3, "cannot tell", None, True),
        (-0.1, 0.3, "better", "cannot tell", False),
        (0.1, 0.3, "better", "cannot tell", True),
        (-0.1, 0.3, "not worse", None, True),
        (-0.3, -0.1, "worse", None, False),
    ],
)
def test_a_contradiction_is_seen(
    low: float, high: float, verdict: Verdict, like_these: Verdict | None, denies: bool
) -> None:
    """An interval speaks of tasks like these, and so only of what is said of them."""
    change = Change(
        "s",
        9,
        0.5,
        0.6,
        verdict,
        0.01,
        Interval(low, high, 0.975),
        of_these_tasks=like_these is not None,
        like_these=like_these,
    )
    assert contradicts(change) is denies


def test_broken_tasks_are_expected() -> None:
    """In 400 comparisons chance breaks some hundred tasks of 41 x 3, and as many are expected."""
    broken, expected, _ = broken_by_chance(41, 3, 3, 400, seed=1)
    assert expected == pytest.approx(broken, rel=0.3)


def test_runs_that_differ_are_told_from_those_that_do_not() -> None:
    """Of 40 baselines of three runs at most 8 are called unlike; with one run 0.2 better, at least 30."""
    assert drifted(PASS_FAIL, 3, 3, 0.0, 40, seed=1) < 9
    assert drifted(PASS_FAIL, 3, 3, 0.2, 40, seed=1) >= 30

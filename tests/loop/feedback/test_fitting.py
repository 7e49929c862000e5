"""How feedback is cut: the worst bucket keeps most, nobody gets more than he needs, cuts are told."""

from __future__ import annotations

import random

import pytest

from pytest_agenteval.loop.feedback.budget import (
    GAP,
    bucket_cost,
    bucket_cuts,
    fit_buckets,
    fit_ends,
    lines_cost,
    weighted_shares,
)
from pytest_agenteval.loop.feedback.content import BucketFeedback, Section, TrialFeedback


def bucket(place: int) -> BucketFeedback:
    """Give a bucket that could fill pages, as every other could."""
    lines = tuple(f"line {at} of what was called and came of it" for at in range(60))
    sections = (Section("input", lines), Section("calls", lines))
    trial = TrialFeedback(f"s/t{place}[m-1]", "", "missed", 0.0, None, (), sections)
    return BucketFeedback("s", f"b{place}", 0.1 * place, 0, 1, 1, "", (), (trial,))


def test_shares_are_by_weight_and_never_above_a_need() -> None:
    """What one does not need goes to the others; all of the total is given where it is needed."""
    assert weighted_shares([100, 100], [3, 1], 40) == [30, 10]
    assert weighted_shares([10, 100], [3, 1], 40) == [10, 30]
    assert weighted_shares([1, 2], [1, 1], 40) == [1, 2]
    draw = random.Random(1)
    for _ in range(300):
        needs = [draw.uniform(0, 100) for _ in range(draw.randint(1, 6))]
        total = draw.uniform(0, 300)
        given = weighted_shares(needs, [draw.uniform(0.1, 5) for _ in needs], total)
        assert all(part <= need + 1e-6 for part, need in zip(given, needs, strict=True))
        assert sum(given) == pytest.approx(min(total, sum(needs)))


def test_the_worst_bucket_keeps_most() -> None:
    """Each further one gets less; those for which there is no room are told by their figures."""
    buckets = [bucket(place) for place in range(6)]
    fitted = fit_buckets(buckets, 2_400)

    costs = [bucket_cost(each) for each in fitted]
    assert 2 <= len(fitted) < 6
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 1.5 * costs[1]
    given, calls = fitted[1].failing[0].sections
    assert given.lines[-1] == buckets[1].failing[0].sections[0].lines[-1]
    assert calls.left_out == 60 - len(calls.lines) > 0
    cuts = list(bucket_cuts(buckets, fitted))
    assert [cut.where for cut in cuts] == [
        "s/b0",
        "s/b1",
        *(f"s/b{at}" for at in range(2, len(fitted))),
        "buckets that are less bad",
    ]
    assert sum(cut.tokens for cut in cuts) == pytest.approx(
        sum(map(bucket_cost, buckets)) - sum(costs), abs=9
    )


def test_an_input_keeps_its_end() -> None:
    """What is asked stands there more often than at its beginning; that something is gone is shown."""
    lines = [f"line {at} of the input, which is a long one" for at in range(50)]
    kept = fit_ends(lines, 160)

    assert (kept[0], kept[-1]) == (lines[0], lines[-1])
    assert GAP in kept
    assert len(kept) - kept.index(GAP) > kept.index(GAP) + 1
    assert lines_cost(kept) <= 160
    assert fit_ends(lines, 10_000) == tuple(lines)

"""Exact tests of old against new: equal to counting every case, or as near as they say."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from random import Random
from statistics import variance

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.exact_tests import PairedScores, label_test, sign_flip_test

QUARTERS = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0])
TRIALS = st.lists(QUARTERS, min_size=1, max_size=3)


def mean(values: Sequence[float]) -> float:
    """The plain mean."""
    return math.fsum(values) / len(values)


def share_at_least(sums: Sequence[float], least: float) -> float:
    """The share of sums that lie as far from 0."""
    return sum(abs(total) >= least - 1e-9 for total in sums) / len(sums)


def all_sign_flips(differences: Sequence[float]) -> list[float]:
    """The sum for every choice of signs."""
    signs = itertools.product((1, -1), repeat=len(differences))
    return [math.fsum(map(math.prod, zip(chosen, differences, strict=True))) for chosen in signs]


def all_labellings(old: Sequence[float], new: Sequence[float]) -> list[float]:
    """New mean less old mean for every choice of which trials are called new."""
    trials = [*old, *new]
    choices = itertools.combinations(range(len(trials)), len(new))
    return [
        mean([trials[at] for at in chosen])
        - mean([trials[at] for at in range(len(trials)) if at not in chosen])
        for chosen in choices
    ]


@given(st.lists(st.sampled_from([-1, -0.75, -1 / 3, -1 / 12, 0, 0.25, 0.5, 1 / 3]), min_size=1, max_size=6))
def test_the_sign_flip_test_equals_counting_all_signs(differences: list[float]) -> None:
    """p is the share of all 2^n choices of signs whose sum is as far from 0 as the one observed."""
    expected = share_at_least(all_sign_flips(differences), abs(math.fsum(differences)))
    assert sign_flip_test(differences).p == pytest.approx(expected, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(TRIALS, TRIALS), min_size=1, max_size=3))
def test_the_label_test_equals_counting_all_labellings(tasks: list[PairedScores]) -> None:
    """p is the share of all labellings within tasks, however many old and new trials each task has."""
    sums = [math.fsum(chosen) for chosen in itertools.product(*(all_labellings(*pair) for pair in tasks))]
    observed = math.fsum(mean(new) - mean(old) for old, new in tasks)
    test = label_test(tasks)
    assert test.p == pytest.approx(share_at_least(sums, abs(observed)), abs=1e-12)
    assert test.smallest_p == pytest.approx(share_at_least(sums, max(map(abs, sums))), abs=1e-12)


@settings(max_examples=6, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(QUARTERS, min_size=3, max_size=3), st.lists(QUARTERS, min_size=3, max_size=3)),
        min_size=6,
        max_size=6,
    )
)
def test_six_tasks_of_three_repetitions_equal_counting(tasks: list[PairedScores]) -> None:
    """The largest case that can be counted by hand: 20^6 labellings, counted by the sums of each half."""
    counts = [all_labellings(*pair) for pair in tasks]
    halves = [
        [round(math.fsum(chosen) * 36) for chosen in itertools.product(*half)]
        for half in (counts[:3], counts[3:])
    ]
    tallies = [{total: half.count(total) for total in set(half)} for half in halves]
    observed = abs(round(36 * math.fsum(mean(new) - mean(old) for old, new in tasks)))
    far = sum(
        left * right
        for a, left in tallies[0].items()
        for b, right in tallies[1].items()
        if abs(a + b) >= observed
    )
    assert label_test(tasks).p == pytest.approx(far / 20**6, abs=1e-12)


@given(st.lists(st.tuples(QUARTERS, QUARTERS), min_size=1, max_size=12))
def test_with_one_repetition_both_tests_are_one(pairs: list[tuple[float, float]]) -> None:
    """A task with one old and one new trial has two labellings: they are its two signs."""
    labels = label_test([([old], [new]) for old, new in pairs])
    assert labels.p == pytest.approx(sign_flip_test([new - old for old, new in pairs]).p, abs=1e-12)


@settings(max_examples=8, deadline=None)
@given(st.lists(QUARTERS, min_size=7, max_size=7), st.lists(QUARTERS, min_size=7, max_size=7))
def test_many_repetitions_are_counted_by_equal_sums(old: list[float], new: list[float]) -> None:
    """3,432 labellings of 14 trials are not written out one by one; they come to the same."""
    sums = all_labellings(old, new)
    test = label_test([(old, new)])
    assert test.p == pytest.approx(share_at_least(sums, abs(mean(new) - mean(old))), abs=1e-12)
    assert test.smallest_p == pytest.approx(share_at_least(sums, max(map(abs, sums))), abs=1e-12)


def test_with_scores_of_0_and_1_it_is_mcnemars_exact_test() -> None:
    """7 tasks rose and 1 fell: twice the binomial tail of 8 throws of a coin."""
    tasks: list[PairedScores] = [([0], [1])] * 7 + [([1], [0])] + [([1], [1])] * 20
    assert label_test(tasks).p == pytest.approx(2 * (8 + 1) / 2**8)


@given(st.lists(st.tuples(TRIALS, TRIALS), min_size=1, max_size=8))
def test_old_and_new_may_be_exchanged(tasks: list[PairedScores]) -> None:
    """The tests are two-sided: a fall of some size is as significant as a rise of it."""
    there, back = label_test(tasks), label_test([(new, old) for old, new in tasks])
    assert there.p == pytest.approx(back.p)
    assert there.smallest_p <= there.p + 1e-12


@pytest.mark.parametrize("differences", [[], [0.0], [0.0] * 30])
def test_what_did_not_change_has_p_1(differences: list[float]) -> None:
    """No task, one task, equal runs: p is 1, nothing is divided by 0."""
    assert sign_flip_test(differences).p == 1.0
    assert label_test([([0.5], [0.5]) for _ in differences]).p == 1.0


def test_scores_without_a_common_denominator_stand_on_a_grid() -> None:
    """Rounded to 1/1000, p stays what counting all signs of the scores themselves gives, to a hundredth."""
    random = Random(1)
    differences = [random.uniform(-0.6, 1) for _ in range(14)]
    expected = share_at_least(all_sign_flips(differences), abs(math.fsum(differences)))
    assert sign_flip_test(differences).p == pytest.approx(expected, abs=0.01)


def by_variance(tasks: Sequence[PairedScores]) -> float:
    """What p is of the label test, about: its sum is nearly normal, with a variance that is known."""
    variances = (variance([*old, *new]) * (1 / len(old) + 1 / len(new)) for old, new in tasks)
    far = math.fsum(mean(new) - mean(old) for old, new in tasks) / math.sqrt(math.fsum(variances))
    return math.erfc(abs(far) / math.sqrt(2))


@pytest.mark.parametrize("seed", range(3))
def test_partial_scores_of_unequal_repetitions_keep_their_p(seed: int) -> None:
    """41 tasks tried 2 to 8 times: the many weights of tasks do not coarsen their scores."""
    random = Random(seed)

    def trials(number: int) -> list[float]:
        return [random.choice(range(5)) / 4 for _ in range(number)]

    tasks = [(trials(2 + at % 7), trials(2 + at * 3 % 7)) for at in range(41)]
    assert label_test(tasks).p == pytest.approx(by_variance(tasks), abs=0.03)


@pytest.mark.parametrize("wide", [1, 5, 20])
def test_tasks_alike_do_not_add_up_what_a_coarse_grid_takes_from_each(wide: int) -> None:
    """15 tasks rose by 0.2, 85 fell by about 0.02, less than a coarse grid shows of one task."""
    odd = [0.0, 0.1, 0.30317, 0.9, 1.0]
    tasks: list[PairedScores] = [([0] * 5, [0.2] * 5)] * 15 + [([0.02] * 5, [0] * 5)] * 85
    tasks += [(odd, odd)] * wide
    assert label_test(tasks).p == pytest.approx(by_variance(tasks), rel=0.3)


def test_small_differences_are_not_rounded_away() -> None:
    """Ten tasks that all rose by some 0.0004 rose: a grid is as fine as the largest of them needs."""
    differences = [0.0004 + at * 1.2345e-7 for at in range(10)]
    assert sign_flip_test(differences).p == pytest.approx(2 / 2**10)
    assert label_test([([0.5], [0.5 + rise]) for rise in differences]).p == pytest.approx(2 / 2**10)


def test_where_scores_cannot_be_counted_p_is_that_of_all_labellings() -> None:
    """40 tasks x 3 of any scores: the distribution of the sum is added up on a grid of 1/2000 by Fourier."""
    rng = np.random.default_rng(4)
    scores = rng.random((40, 6))
    scores[:, 3:] += 0.08
    points, lowest, waves = 2**18, 0, np.ones(2**17 + 1, dtype=complex)
    for task in scores:
        sums = np.round(2_000 * np.array(all_labellings(list(task[:3]), list(task[3:])))).astype(int)
        lowest += sums.min()
        waves *= np.fft.rfft(np.bincount(sums - sums.min(), minlength=points) / 20)
    shares = np.fft.irfft(waves)
    observed = (scores[:, 3:].mean(axis=1) - scores[:, :3].mean(axis=1)).sum()
    far = np.abs(np.arange(points) + lowest) >= 2_000 * abs(observed)
    expected = float(shares[far].sum())
    assert 0.005 < expected < 0.2
    tasks = [(list(task[:3]), list(task[3:])) for task in scores]
    assert label_test(tasks).p == pytest.approx(expected, rel=0.002)


@pytest.mark.parametrize("jitter", [0.05, 0.1])
@pytest.mark.parametrize("wholly", [4, 5])
def test_a_few_tasks_that_change_wholly_among_others_that_jitter(wholly: int, jitter: float) -> None:
    """Their sums lie in heaps, which no smooth approximation follows: beside all 2^18 signs."""
    random = Random(wholly)
    differences = [1.0] * wholly + [random.uniform(-jitter, jitter) for _ in range(18 - wholly)]
    signs = 1 - 2 * ((np.arange(2**18)[:, None] >> np.arange(18)) & 1)
    sums = np.abs(signs @ np.array(differences))
    expected = float((sums >= abs(sum(differences)) - 1e-9).mean())
    assert sign_flip_test(differences).p == pytest.approx(expected, rel=0.03)


# Scores that differ by less than the grid of few trials (1/20,000) count as equal.
ANY_SCORES = st.lists(st.integers(0, 997).map(lambda part: part / 997), min_size=1, max_size=5)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(ANY_SCORES, ANY_SCORES), min_size=1, max_size=20))
def test_any_scores_mirror_and_scale(tasks: list[PairedScores]) -> None:
    """Old and new exchanged, or all scores in a narrow range: the same p, to what rounding may cost."""
    test = label_test(tasks)
    assert label_test([(new, old) for old, new in tasks]).p == pytest.approx(test.p, rel=1e-6, abs=1e-9)
    narrow: list[PairedScores] = [
        ([0.98 + score / 128 for score in old], [0.98 + score / 128 for score in new]) for old, new in tasks
    ]
    assert label_test(narrow).p == pytest.approx(test.p, rel=0.05, abs=1e-3)


@pytest.mark.parametrize(("tasks", "repetitions", "seconds"), [(41, 8, 0.5), (500, 3, 0.5), (2_500, 3, 0.5)])
def test_a_test_of_any_scores_is_quick(tasks: int, repetitions: int, seconds: float) -> None:
    """Processor time of one test; the goals are those of a machine that is not slow, tripled."""
    random = Random(2)

    def trials() -> list[float]:
        return [random.random() for _ in range(repetitions)]

    pairs = [(trials(), trials()) for _ in range(tasks)]
    began = time.process_time()
    label_test(pairs)
    assert time.process_time() - began < 3 * seconds

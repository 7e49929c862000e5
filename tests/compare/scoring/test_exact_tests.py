"""Exact tests of old against new: equal to counting every case, or as near as they say."""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from random import Random
from statistics import variance

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_agenteval.compare.scoring.exact_tests import (
    ExactTest,
    PairedScores,
    SumTail,
    label_test,
    part_of,
    sign_flip_test,
    tarone_holm,
)

QUARTERS = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.75, 1.0])
# Also scores without a small common denominator, and one that is close to 0 or to another one.
ANY_SCORE = QUARTERS | st.integers(0, 997).map(lambda part: part / 997) | st.sampled_from([1e-4, 0.5 + 1e-6])
TRIALS = st.lists(ANY_SCORE, min_size=1, max_size=3)


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
@example([([0, 0], [0, 0, 0, 0, 1 / 997]), ([0], [88 / 997])])
@example([([0, 0.3, 0.7], [1, 1, 1]), ([0.5], [0.5 - 1 / 997])])
def test_the_label_test_equals_counting_all_labellings(tasks: list[PairedScores]) -> None:
    """p is the share of all labellings within tasks, however many old and new trials each task has."""
    sums = [math.fsum(chosen) for chosen in itertools.product(*(all_labellings(*pair) for pair in tasks))]
    observed = math.fsum(mean(new) - mean(old) for old, new in tasks)
    test = label_test(tasks)
    assert test.p == pytest.approx(share_at_least(sums, abs(observed)), abs=1e-12)
    assert test.smallest_p == pytest.approx(share_at_least(sums, max(map(abs, sums))), abs=1e-12)


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


@pytest.mark.parametrize("differences", [[], [0.0], [0.0] * 30])
def test_what_did_not_change_has_p_1(differences: list[float]) -> None:
    """No task, one task, equal runs: p is 1, nothing is divided by 0."""
    assert sign_flip_test(differences).p == 1.0
    assert label_test([([0.5], [0.5]) for _ in differences]).p == 1.0


@pytest.mark.parametrize(("tasks", "error"), [(16, 1e-12), (17, 0.01)])
def test_scores_without_a_common_denominator_are_listed_or_stand_on_a_grid(tasks: int, error: float) -> None:
    """Of 16 tasks all sums are listed; of more p is what counting all signs gives, to a hundredth."""
    random = Random(1)
    differences = [random.uniform(-0.6, 1) for _ in range(tasks)]
    signs = 1 - 2 * ((np.arange(2**tasks)[:, None] >> np.arange(tasks)) & 1)
    sums = np.abs(signs @ np.array(differences))
    expected = float((sums >= abs(math.fsum(differences)) - 1e-9).mean())
    assert sign_flip_test(differences).p == pytest.approx(expected, abs=error)


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


@pytest.mark.parametrize("in_quarters", [False, True])
@pytest.mark.parametrize(("tasks", "repetitions"), [(41, 8), (500, 3), (2_500, 3), (10_000, 1)])
def test_a_test_of_any_scores_is_quick(tasks: int, repetitions: int, in_quarters: bool) -> None:
    """Processor time of one test, also of quarters, of which many sums are equal: 0.5 s, tripled."""
    random = Random(2)

    def trials() -> list[float]:
        return [random.randrange(5) / 4 if in_quarters else random.random() for _ in range(repetitions)]

    pairs = [(trials(), trials()) for _ in range(tasks)]
    began = time.process_time()
    label_test(pairs)
    assert time.process_time() - began < 1.5


@pytest.mark.parametrize("digits", [3, 17])
def test_tests_that_share_their_time_say_the_same(digits: int) -> None:
    """15 comparisons of 10 buckets, as 6 sides have, take about as long as a single one: p within 3 %."""
    random, alone, sharing = Random(3), 0.0, 0.0
    for rise in (0.0, 0.1, 0.2, 0.3, 0.3):
        tasks = [
            ([round(random.random(), digits) for _ in range(3)],
             [round(min(1, random.random() + rise), digits) for _ in range(3)])
            for _ in range(10)
        ]  # fmt: skip
        began = time.process_time()
        whole = label_test(tasks)
        between = time.process_time()
        shared = label_test(tasks, sharing=15)
        alone, sharing = alone + between - began, sharing + time.process_time() - between
        assert shared.p == pytest.approx(whole.p, rel=0.03)
    assert sharing < max(0.05, alone / 3)


FAR = (0.0, 0.3, 1.0, 2.2, 4.0, 9.0)
"""Standard deviations from the mean."""


def counted(sizes: Sequence[int], total: int) -> float:
    """Give the share of all choices of these numbers that add up to so much, by counting them."""
    bits = len(sizes) + 1
    packed = 1
    for size in sizes:
        packed += packed << (size * bits)
    return float(Fraction((packed >> (total * bits)) % ((1 << bits) - 1), 2 ** len(sizes)))


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (1, 2, 7), (3, 6)])
def test_a_tail_is_as_counted_to_three_digits(sizes: tuple[int, ...]) -> None:
    """Also far out, where it is one of many millions; and where sums come in steps of three."""
    draw = random.Random(3)
    chosen = [draw.choice(sizes) for _ in range(400)]
    spacing = math.gcd(*sizes)
    tail = SumTail((part_of({0: 1, size: 1}, count) for size, count in Counter(chosen).items()), spacing)
    deviation = math.sqrt(sum(size * size for size in chosen)) / 2
    for far in FAR:
        total = math.ceil((sum(chosen) / 2 + far * deviation) / spacing) * spacing
        assert tail.at_least(total) == pytest.approx(counted(chosen, total), rel=1e-3)
    assert tail.at_least(sum(chosen)) == pytest.approx(0.5**400)
    assert (tail.at_least(sum(chosen) + spacing), tail.at_least(0)) == (0, 1)


def test_as_many_ups_as_downs_of_many_tasks_are_no_change() -> None:
    """And one sign for all of them is the least that there can be."""
    assert sign_flip_test([0.5, -0.5] * 1_000).p == 1
    assert sign_flip_test([1.0] * 1_050).p == pytest.approx(math.ldexp(1, -1049))


@pytest.mark.parametrize("ups", [1_000, 1_030, 1_150])
def test_flipped_signs_of_many_tasks_are_a_coin_tossed_often(ups: int) -> None:
    """All that moved moved by the same: the test is that of a fair coin."""
    heads = sum(math.comb(2_000, more) for more in range(ups, 2_001))
    p = min(1.0, float(Fraction(2 * heads, 2**2_000)))
    moved = [0.5] * ups + [-0.5] * (2_000 - ups) + [0.0] * 3_000

    assert sign_flip_test(moved).p == pytest.approx(p, rel=1e-4)


def test_labels_of_many_tasks_are_exchanged_as_those_of_few() -> None:
    """Two repetitions against three, passed or not: beside shares that are added up one task at a time."""
    draw = random.Random(7)
    tasks = [
        ([float(draw.random() < 0.5) for _ in range(2)], [float(draw.random() < 0.52) for _ in range(3)])
        for _ in range(1_600)
    ]
    shares, observed = np.ones(1), 0
    for old, new in tasks:
        passed = int(sum(old) + sum(new))
        ways = [math.comb(passed, hits) * math.comb(5 - passed, 3 - hits) / 10 for hits in range(4)]
        shares, observed = np.convolve(shares, ways), observed + int(sum(new))
    middle = sum(3 * (sum(old) + sum(new)) / 5 for old, new in tasks)
    away = abs(observed - middle)
    p = float(shares[np.abs(np.arange(len(shares)) - middle) >= away - 1e-9].sum())

    assert label_test(tasks).p == pytest.approx(p, rel=1e-3)


LEVEL = 0.025
SHARES = st.floats(0, 1)
TESTS = st.lists(st.tuples(SHARES, SHARES).map(lambda pair: ExactTest(max(pair), min(pair))), max_size=12)


def significant(tests: list[ExactTest]) -> list[bool]:
    """Which tests are significant at the level."""
    return [test.significant for test in tarone_holm(tests, LEVEL)]


def test_what_could_never_be_significant_costs_the_others_nothing() -> None:
    """One bucket with enough trials among 24 that are too small is tested at the whole level."""
    tests = [ExactTest(0.02, 0.001)] + [ExactTest(0.2, 0.1)] * 24
    found = tarone_holm(tests, LEVEL)
    assert [test.testable for test in found] == [True] + [False] * 24
    assert found[0].significant


def test_testable_buckets_share_the_level() -> None:
    """Two that could both be significant have half of the level each."""
    tests = [ExactTest(0.02, 0.001), ExactTest(0.5, 0.001)]
    assert significant(tests) == [False, False]
    assert significant([ExactTest(0.012, 0.001), tests[1]]) == [True, False]


def test_what_is_significant_leaves_its_share_to_the_rest() -> None:
    """Holm's step: after the first is set aside the second is tested at the whole level."""
    assert significant([ExactTest(0.001, 0.0001), ExactTest(0.02, 0.0001)]) == [True, True]


def test_a_false_one_among_them_is_as_rare_as_the_level_says() -> None:
    """Three tests of nothing beside one that found something: counted over all that the three can show."""
    can_show = [[LEVEL / 8, LEVEL / 2, 1.0], [LEVEL / 3.5, LEVEL / 3, 1.0], [LEVEL / 3.5, LEVEL / 3, 1.0]]
    real = ExactTest(LEVEL / 8, LEVEL / 8)
    wrong = 0.0
    for shown in itertools.product(*can_show):
        tests = [ExactTest(p, min(own)) for p, own in zip(shown, can_show, strict=True)]
        if any(significant([*tests, real])[:3]):
            wrong += math.prod(_chance(p, own) for p, own in zip(shown, can_show, strict=True))
    assert wrong <= LEVEL


def _chance(p: float, can_show: list[float]) -> float:
    """How often a test of nothing shows exactly this p, of those that it can show."""
    return p - max((other for other in can_show if other < p), default=0.0)


@given(TESTS)
def test_it_is_never_stricter_than_bonferroni_and_never_laxer_than_no_correction(
    tests: list[ExactTest],
) -> None:
    """Significant at level / number of tests stays significant; what is above the level never is."""
    for test, found in zip(tests, tarone_holm(tests, LEVEL), strict=True):
        if test.p <= LEVEL / len(tests):
            assert found.significant
        if test.p > LEVEL + 1e-9:
            assert not found.significant
        if found.significant:
            assert test.smallest_p <= LEVEL + 1e-9


@example([ExactTest(0.0001, 0.0001), ExactTest(0.02, 0.02)])
@given(TESTS)
def test_what_is_significant_could_be(tests: list[ExactTest]) -> None:
    """No screen calls a bucket better that it counts among those without a possible verdict."""
    assert all(test.testable for test in tarone_holm(tests, LEVEL) if test.significant)

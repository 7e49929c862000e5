"""Shares of more cases than can be counted, beside those that are counted after all."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from pytest_agenteval.compare.scoring.exact_tests import SumTail, label_test, part_of, sign_flip_test

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


def test_thousands_of_tasks_are_tested_by_their_few_kinds() -> None:
    """Scores that judges give differ in every task: they are put together, and the answer is the same."""
    draw = random.Random(11)
    moved = [max(-1.0, min(1.0, draw.gauss(0.002, 0.3))) for _ in range(5_000)]
    error = math.sqrt(math.fsum(each * each for each in moved)) / len(moved)
    middle = math.fsum(moved) / len(moved)

    assert sign_flip_test(moved).p == pytest.approx(math.erfc(middle / error / math.sqrt(2)), rel=0.01)

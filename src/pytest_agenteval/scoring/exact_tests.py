"""Exact tests of old against new scores, paired by task: no distribution is assumed, no lot drawn.

Both ask how often chance alone would move the mean of the tasks' differences as far as it moved. They count
all cases by adding up distributions: how many ways lead to each sum, in whole numbers. So scores are first
made whole: exactly where they are fractions with a small common denominator (halves, quarters, twelfths),
else on a grid, by default of 1/1000. Rounding treats old and new alike, so that a test on a grid is as honest
as any.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.intervals import Interval

PairedScores: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""The scores of one task's trials, old and new; either may have any number of them, 1 or more."""

Ways: TypeAlias = Mapping[int, int]
"""In how many ways a sum can come about, by sum; sums are 0 or more."""

GRID = 1_000
LARGEST_DENOMINATOR = 10_000
SAME = 1e-9
LEAST = 1e-4
SHARE_BITS = 64
ONE = 1 << 62

MOST_BITS_OF_SIGNS, MOST_BITS_OF_LABELS, MOST_BITS_OF_TAIL = 8_000_000, 2_000_000, 500_000
"""What one distribution may take; where it would take more, scores stand on a coarser grid.

A task has two signs and, with three repetitions, twenty labellings; and an interval takes thirty tails.
"""

FEW_LABELLINGS = 1_000


class ExactTest(FrozenValue, frozen=True):
    """The share of all equally likely cases that are at least as far from no change as the case observed.

    ``smallest_p`` is that of the most extreme case: no outcome could have given less, so a test whose
    ``smallest_p`` is above the level can find nothing.
    """

    p: float
    smallest_p: float


def sign_flip_test(differences: Iterable[float]) -> ExactTest:
    """Ask whether tasks like these change: were each task's difference as likely to have the other sign?

    (Fisher's randomization test of symmetry about 0, two-sided.) One difference for each task, -1..1; a task
    that did not change says nothing. With m tasks that changed, ``smallest_p`` is 2 / 2^m, and 1 with none.
    """
    changed = [difference for difference in differences if abs(difference) > SAME]
    steps = _steps(map(abs, changed), math.fsum(map(abs, changed)), len(changed) + 2, MOST_BITS_OF_SIGNS)
    whole = [round(abs(difference) * steps) for difference in changed]
    observed = sum(size for size, difference in zip(whole, changed, strict=True) if difference > 0)
    return _exact_test([_either_sign(size) for size in whole], observed)


def sign_flip_interval(differences: Sequence[float], level: float) -> Interval:
    """Give all changes of the mean, -1..1, that the sign-flip test at 1 - ``level`` does not contradict.

    A change d is contradicted if the differences less d fail the test; the ends are where that begins, within
    0.0001. So the interval holds 0 if and only if the test of no change is not significant: near 0, where a
    grid and the last digit could say otherwise, the test decides.
    """
    if not any(abs(difference) > SAME for difference in differences):
        return Interval(0.0, 0.0, level)
    tail = (1 - level) / 2
    low = _change_with_tail(differences, tail)
    high = -_change_with_tail([-difference for difference in differences], tail)
    significant = sign_flip_test(differences).p <= 1 - level
    if significant and math.fsum(differences) > 0:
        return Interval(max(low, LEAST), high, level)
    if significant:
        return Interval(low, min(high, -LEAST), level)
    return Interval(min(low, 0.0), max(high, 0.0), level)


def _change_with_tail(differences: Sequence[float], tail: float) -> float:
    """Give the largest change at which at most a share ``tail`` of all sign flips reach what was observed."""
    low, high = -1.0, 1.0
    while high - low > LEAST:
        middle = (low + high) / 2
        if _upper_tail(differences, middle) <= tail:
            low = middle
        else:
            high = middle
    return low


def _upper_tail(differences: Sequence[float], change: float) -> float:
    """Give the share of sign flips whose sum, of differences less ``change``, is at least as observed.

    To about 9 digits, on a grid: shares take 64 bits where counts of hundreds of tasks would take hundreds.
    """
    moved = [difference - change for difference in differences]
    steps = min(GRID, _most_steps(math.fsum(map(abs, moved)), SHARE_BITS, MOST_BITS_OF_TAIL))
    whole = [round(value * steps) for value in moved]
    # halving all digits at once moves the last bit of each to the top of the one before it: there it is
    # cleared
    halved = int.from_bytes((b"\xff" * 7 + b"\x7f") * (sum(map(abs, whole)) + 1), "little")
    packed = ONE
    for size in map(abs, whole):
        packed = (packed + (packed << (size * SHARE_BITS)) >> 1) & halved
    observed = sum(size for size in whole if size > 0)
    return _at_least(packed, observed, SHARE_BITS) / ONE


def label_test(tasks: Iterable[PairedScores]) -> ExactTest:
    """Ask whether these very tasks changed: were old and new only names, handed out anew within each task?

    (An exact permutation test within blocks, two-sided, of the mean over tasks of new mean less old mean.)
    All ways count in which a task's trials can be called old and new, as many old and as many new as there
    are; repetitions may differ. With one repetition it is the sign-flip test, with scores 0 and 1 McNemar's.
    """
    blocks = [_Block(*pair) for pair in tasks]
    blocks = [block for block in blocks if block.spread > SAME]
    bits = math.prod(block.labellings for block in blocks).bit_length() + 1
    weights = _whole_weights([block.weight for block in blocks])
    extent = math.fsum(block.spread * weight for block, weight in zip(blocks, weights, strict=True))
    steps = _steps((score for block in blocks for score in block.scores), extent, bits, MOST_BITS_OF_LABELS)
    ways = [
        {weight * total: count for total, count in block.new_sums(steps).items()}
        for block, weight in zip(blocks, weights, strict=True)
    ]
    observed = sum(weight * block.observed(steps) for block, weight in zip(blocks, weights, strict=True))
    return _exact_test(ways, observed)


class _Block:
    """The trials of one task, old ones first, as scores above the lowest of them."""

    def __init__(self, old: Sequence[float], new: Sequence[float]) -> None:
        lowest = min((*old, *new))
        self.scores = [score - lowest for score in (*old, *new)]
        self.old, self.new = len(old), len(new)
        # new mean - old mean = weight * (sum of new) - constant, so that the sum of new is all that varies
        self.weight = Fraction(self.old + self.new, self.old * self.new)
        self.labellings = math.comb(self.old + self.new, self.new)

    @property
    def spread(self) -> float:
        """The largest that the sum of the new ones can be."""
        return math.fsum(sorted(self.scores)[self.old :])

    def observed(self, steps: int) -> int:
        """The sum of the new ones."""
        return sum(round(score * steps) for score in self.scores[self.old :])

    def new_sums(self, steps: int) -> Ways:
        """Count the ways to choose the new ones by their sum."""
        whole = [round(score * steps) for score in self.scores]
        if self.labellings <= FEW_LABELLINGS:
            return Counter(map(sum, combinations(whole, self.new)))
        width = self.labellings.bit_length() // 8 + 1
        # sums[j] holds the ways to choose j trials, those for the sum s at its byte s * width
        sums = [1, *[0] * self.new]
        for score in whole:
            for chosen in range(self.new, 0, -1):
                sums[chosen] += sums[chosen - 1] << (8 * width * score)
        digits = sums[self.new].to_bytes(sums[self.new].bit_length() // 8 + width, "little")
        ways = (int.from_bytes(digits[at : at + width], "little") for at in range(0, len(digits), width))
        return {total: count for total, count in enumerate(ways) if count}


def _whole_weights(weights: Sequence[Fraction]) -> list[int]:
    """Multiply weights by one number that makes the smallest whole numbers of them."""
    common = math.lcm(*(weight.denominator for weight in weights))
    whole = [int(weight * common) for weight in weights]
    divisor = math.gcd(*whole)
    return [weight // divisor for weight in whole]


def _steps(values: Iterable[float], extent: float, bits: int, most_bits: int) -> int:
    """Give by how much scores are multiplied, and then rounded, to make whole numbers of them.

    ``extent`` is the largest sum there can be, ``bits`` what the count for one sum takes.
    """
    most = _most_steps(extent, bits, most_bits)
    common = 1
    for value in set(values):
        exact = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
        common = math.lcm(common, exact.denominator)
        if abs(exact - Fraction(value)) > SAME or common > most:
            return min(GRID, most)
    return common


def _most_steps(extent: float, bits: int, most_bits: int) -> int:
    return max(1, int(most_bits / bits / max(extent, SAME)))


def _exact_test(ways: Sequence[Ways], observed: int) -> ExactTest:
    """Test how far from its mean a sum lies whose summands come about in these ways."""
    cases = math.prod(sum(each.values()) for each in ways)
    bits = cases.bit_length() + 1
    packed = _packed(ways, bits)
    middle = sum((_mean(each) for each in ways), Fraction(0))
    highest, lowest = sum(map(max, ways)), sum(map(min, ways))

    def share(distance: Fraction) -> float:
        if not distance:
            return 1.0
        above = _at_least(packed, math.ceil(middle + distance), bits)
        below = cases - _at_least(packed, math.floor(middle - distance) + 1, bits)
        return float(Fraction(above + below, cases))

    return ExactTest(share(abs(observed - middle)), share(max(highest - middle, middle - lowest)))


def _either_sign(size: int) -> Ways:
    """Count a difference's two signs: as what it adds to the sum of the positive ones."""
    return {0: 1, size: 1} if size else {0: 2}


def _mean(ways: Ways) -> Fraction:
    return Fraction(sum(total * count for total, count in ways.items()), sum(ways.values()))


def _packed(ways: Iterable[Ways], bits: int) -> int:
    """Add up distributions: the ways to each sum s, as the digit s of one number to the base 2^bits.

    A whole distribution is then shifted and added at once, which is what makes hundreds of tasks quick.
    """
    packed = 1
    for each in ways:
        shifted = (packed << (total * bits) for total in each)
        packed = sum(
            ways if count == 1 else ways * count for ways, count in zip(shifted, each.values(), strict=True)
        )
    return packed


def _at_least(packed: int, total: int, bits: int) -> int:
    """Count the ways to a sum of ``total`` or more."""
    # modulo base - 1 a number is the sum of its digits, and that sum is smaller than base - 1
    return (packed >> (max(total, 0) * bits)) % ((1 << bits) - 1)

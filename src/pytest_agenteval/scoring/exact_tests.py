"""Exact tests of old against new scores, paired by task: no distribution is assumed, no lot drawn.

Both ask how often chance alone would move the mean of the tasks' differences as far as it moved. They count
all cases by adding up distributions: how many ways lead to each sum, in whole numbers. So scores are first
made whole: exactly where they are fractions with a small common denominator (halves, quarters, twelfths),
else on a grid, by default of 1/1000 of the largest. Rounding treats old and new alike, so that a test on a
grid is as honest as any.

Of more than a thousand tasks that changed there are more cases than can be counted: ``tails`` then says how
many there are of them, to 3 digits and more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from typing import Any, TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.intervals import Interval
from pytest_agenteval.scoring.tails import SumTail, part_of

PairedScores: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""The scores of one task's trials, old and new; either may have any number of them, 1 or more."""

Ways: TypeAlias = Mapping[int, int]
"""In how many ways a sum can come about, by sum; sums are 0 or more."""

GRID = 1_000
LARGEST_DENOMINATOR = 1_000_000
SAME = 1e-9
GOLDEN = (math.sqrt(5) - 1) / 2
ALMOST_ONE = 1 - 1e-3
LEAST = 1e-4
SHARE_BITS = 64
ONE = 1 << 62

MOST_BITS_OF_SIGNS, MOST_BITS_OF_LABELS, MOST_BITS_OF_TAIL = 8_000_000, 2_000_000, 500_000
"""What one distribution may take; where it would take more, scores stand on a coarser grid.

A task has two signs and, with three repetitions, twenty labellings; and an interval takes thirty tails.
"""

FEW_LABELLINGS = 1_000

MANY_TASKS = 1_000
"""Tasks that changed, or that an interval is of, beyond which not all cases are counted."""

MOST_DISTINCT = 2_000
"""Scores of many tasks are rounded to 3 digits where more than so many tasks are alike in none."""


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
    if len(changed) > MANY_TASKS:
        return _test_of_many(((0.0,), (difference,)) for difference in changed)
    steps = _steps(map(abs, changed), math.fsum(map(abs, changed)), len(changed) + 2, MOST_BITS_OF_SIGNS)
    whole = [round(abs(difference) * steps) for difference in changed]
    observed = sum(size for size, difference in zip(whole, changed, strict=True) if difference > 0)
    return _exact_test([_either_sign(size) for size in whole], observed, math.fsum(changed))


def sign_flip_interval(differences: Sequence[float], level: float) -> Interval:
    """Give all changes of the mean, -1..1, that the sign-flip test at 1 - ``level`` does not contradict.

    A change d is contradicted if the differences less d fail the test; the ends are where that begins, within
    0.001. So the interval holds 0 if and only if the test of no change is not significant: near 0, where a
    grid and the last digit could say otherwise, the test decides.
    """
    if not any(abs(difference) > SAME for difference in differences):
        return Interval(0.0, 0.0, level)
    tail = (1 - level) / 2
    if len(differences) > MANY_TASKS and len({*differences}) > MOST_DISTINCT:
        differences = [round(difference * GRID) / GRID for difference in differences]
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
    low, high = _bracket(differences) if len(differences) > MANY_TASKS else (-1.0, 1.0)
    while high - low > LEAST:
        middle = (low + high) / 2
        if _upper_tail(differences, middle) <= tail:
            low = middle
        else:
            high = middle
    return low


def _bracket(differences: Sequence[float]) -> tuple[float, float]:
    """Give where the change of many tasks is looked for: eight standard errors around their mean."""
    count = len(differences)
    middle = math.fsum(differences) / count
    error = math.sqrt(math.fsum(difference * difference for difference in differences)) / count
    return middle - 8 * error, middle + 8 * error


def _upper_tail(differences: Sequence[float], change: float) -> float:
    """Give the share of sign flips whose sum, of differences less ``change``, is at least as observed.

    To about 9 digits, on a grid: shares take 64 bits where counts of hundreds of tasks would take hundreds.
    """
    if len(differences) > MANY_TASKS:
        return _upper_tail_of_many(differences, change)
    moved = [difference - change for difference in differences]
    steps = min(GRID, _most_steps(math.fsum(map(abs, moved)), SHARE_BITS, MOST_BITS_OF_TAIL))
    # what rounding takes from one task goes to the next: where many are alike it would add up
    reached = [0, *(round(total * steps) for total in accumulate(map(abs, sorted(moved))))]
    sizes = [after - before for before, after in pairwise(reached)]
    falls = sum(value < 0 for value in moved)
    # halving all digits at once moves the last bit of each to the top of the one before it: there it is
    # cleared
    halved = int.from_bytes((b"\xff" * 7 + b"\x7f") * (sum(sizes) + 1), "little")
    packed = ONE
    for size in sizes:
        packed = (packed + (packed << (size * SHARE_BITS)) >> 1) & halved
    return _at_least(packed, sum(sizes[falls:]), SHARE_BITS) / ONE


def _upper_tail_of_many(differences: Sequence[float], change: float) -> float:
    moved = Counter(difference - change for difference in differences)
    tail = SumTail(part_of({0.0: 1, abs(size): 1}, count) for size, count in moved.items() if size)
    return tail.at_least(math.fsum(size * count for size, count in moved.items() if size > 0))


def label_test(tasks: Iterable[PairedScores]) -> ExactTest:
    """Ask whether these very tasks changed: were old and new only names, handed out anew within each task?

    (An exact permutation test within blocks, two-sided, of the mean over tasks of new mean less old mean.)
    All ways count in which a task's trials can be called old and new, as many old and as many new as there
    are; repetitions may differ. With one repetition it is the sign-flip test, with scores 0 and 1 McNemar's.
    """
    pairs = list(tasks)
    changed = [(old, new) for old, new in pairs if max(*old, *new) - min(*old, *new) > SAME]
    if len(changed) > MANY_TASKS:
        return _test_of_many(changed, _heaviest(pairs))
    weights = [_weight(*pair) for pair in pairs]
    heaviest = _heaviest(pairs)
    blocks = [
        _Block(*pair, float(own / heaviest), (at * GOLDEN) % 1 - 0.5)
        for at, (pair, own) in enumerate(zip(pairs, weights, strict=True))
    ]
    blocks = [block for block in blocks if block.spread > SAME]
    bits = math.prod(block.labellings for block in blocks).bit_length() + 1
    extent = math.fsum(block.spread for block in blocks)
    steps = _steps((score for block in blocks for score in block.scores), extent, bits, MOST_BITS_OF_LABELS)
    observed = sum(block.observed(steps) for block in blocks)
    change = math.fsum(block.change for block in blocks)
    return _exact_test([block.new_sums(steps) for block in blocks], observed, change)


def _weight(old: Sequence[float], new: Sequence[float]) -> Fraction:
    return Fraction(len(old) + len(new), len(old) * len(new))


def _heaviest(pairs: Iterable[PairedScores]) -> Fraction:
    return max((_weight(*pair) for pair in pairs), default=Fraction(1))


def _test_of_many(tasks: Iterable[PairedScores], heaviest: Fraction = Fraction(2)) -> ExactTest:
    """Do the label test of many tasks that changed: those that are alike are looked at once."""
    alike = Counter((tuple(old), tuple(new)) for old, new in tasks)
    if len(alike) > MOST_DISTINCT:
        alike = _rounded(alike)
    counted = [
        (_Block(old, new, float(_weight(old, new) / heaviest), 0.0), count)
        for (old, new), count in alike.items()
    ]
    steps = _steps((score for block, _ in counted for score in block.scores), 1.0, 1, LARGEST_DENOMINATOR)
    ways: Counter[frozenset[tuple[int, int]]] = Counter()
    for block, count in counted:
        ways[frozenset(block.new_sums(steps).items())] += count
    observed = sum(block.observed(steps) * count for block, count in counted)
    return _tested(Counter({key: count for key, count in ways.items() if len(key) > 1}), observed)


def _rounded(alike: Mapping[tuple[tuple[float, ...], tuple[float, ...]], int]) -> Counter[Any]:
    rounded: Counter[Any] = Counter()
    for sides, count in alike.items():
        rounded[tuple(tuple(round(score * GRID) / GRID for score in side) for side in sides)] += count
    return rounded


def _tested(ways: Mapping[frozenset[tuple[int, int]], int], observed: int) -> ExactTest:
    """Test how far from its mean a sum lies of whole numbers that come about in these ways, so many each."""
    lattice = math.gcd(*(value - min(key)[0] for key in ways for value, _ in key))
    up = SumTail((part_of(dict(key), count) for key, count in ways.items()), lattice)
    down = SumTail(
        (part_of({-value: number for value, number in key}, count) for key, count in ways.items()), lattice
    )

    def share(distance: float) -> float:
        if distance <= SAME:
            return 1.0
        both = ((side, side.mean + distance) for side in (up, down))
        return min(1.0, math.fsum(side.at_least(side.next_from(total)) for side, total in both))

    return ExactTest(share(abs(observed - up.mean)), share(max(up.highest - up.mean, up.mean - up.lowest)))


class _Block:
    """The trials of one task, old ones first: their scores above the lowest of them, weighed.

    New mean less old mean is the sum of the new ones times ``1 / old + 1 / new``, less a constant. Weighed by
    that, or by any multiple of it that is the same for all tasks, the sum of the new ones is all that varies.
    What is halfway between two whole numbers is rounded up as often as down: ``tilt``, -0.5..0.5, says it for
    this task. Else tasks that are alike would add up what rounding takes from each.
    """

    def __init__(self, old: Sequence[float], new: Sequence[float], weight: float, tilt: float) -> None:
        lowest, self.tilt = min((*old, *new)), tilt * ALMOST_ONE
        self.scores = [(score - lowest) * weight for score in (*old, *new)]
        self.old, self.new = len(old), len(new)
        self.labellings = math.comb(self.old + self.new, self.new)
        self.change = math.fsum(new) / self.new - math.fsum(old) / self.old

    @property
    def spread(self) -> float:
        """The largest that the sum of the new ones can be."""
        return math.fsum(sorted(self.scores)[self.old :])

    def observed(self, steps: int) -> int:
        """The sum of the new ones."""
        return sum(self._whole(steps)[self.old :])

    def _whole(self, steps: int) -> list[int]:
        return [round(score * steps + self.tilt) for score in self.scores]

    def new_sums(self, steps: int) -> Ways:
        """Count the ways to choose the new ones by their sum."""
        whole = self._whole(steps)
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


def _steps(values: Iterable[float], extent: float, bits: int, most_bits: int) -> int:
    """Give by how much scores are multiplied, and then rounded, to make whole numbers of them.

    ``extent`` is the largest sum there can be, ``bits`` what the count for one sum takes.
    """
    distinct = set(values)
    most = _most_steps(extent, bits, most_bits)
    grid = min(math.ceil(GRID / max(distinct, default=1.0)), most)
    common = 1
    for value in distinct:
        exact = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
        common = math.lcm(common, exact.denominator)
        if abs(exact - Fraction(value)) > SAME or common > most:
            return grid
    return common


def _most_steps(extent: float, bits: int, most_bits: int) -> int:
    return max(1, int(most_bits / bits / max(extent, SAME)))


def _exact_test(ways: Sequence[Ways], observed: int, change: float) -> ExactTest:
    """Test how far from its mean a sum lies whose summands come about in these ways.

    On a coarse grid the sum may lie on the other side of its mean than the ``change`` of the scores
    themselves: then neither is significant.
    """
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

    opposed = (observed - middle) * Fraction(change) < 0
    p = 1.0 if opposed else share(abs(observed - middle))
    return ExactTest(p, share(max(highest - middle, middle - lowest)))


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

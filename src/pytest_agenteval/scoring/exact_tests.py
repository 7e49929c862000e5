"""Exact tests of old against new scores, paired by task: no distribution is assumed, nothing is drawn.

Both tests ask how often chance alone would move the mean of the tasks' differences as far as it moved. All
cases are counted by adding up distributions: in how many ways each sum can come about, in whole numbers. For
that, scores are made whole: fractions with a small common denominator (halves, quarters, twelfths) exactly.

Where scores have no such denominator, or the count would be too large, there are two ways:

- Of more than 2^40 cases, as 10 tasks x 3 have them, p is a saddlepoint approximation (``tails``), within 2 %
  of the exact p.
- Of fewer, scores stand on a grid of 1/1000 of the largest, or 1/100 where tasks have 6 repetitions or more.
  Rounding treats old and new alike, so the test keeps its level.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypeAlias

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.tails import SumTail, part_of

PairedScores: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""The scores of one task's trials, old and new; either may have any number of them, 1 or more."""

Ways: TypeAlias = Mapping[int, int]
"""In how many ways a sum can come about, by sum; sums are 0 or more."""

GRID = 1_000
COARSE_GRID = 100
"""Where a task has more than FEW_LABELLINGS: with 6 repetitions or more of any scores."""

LARGEST_DENOMINATOR = 1_000_000
SAME = 1e-9
GOLDEN = (math.sqrt(5) - 1) / 2
ALMOST_ONE = 1 - 1e-3

MOST_BITS = 2_000_000
"""What one distribution may take in memory, and so the time that counting takes: a fifth of a second."""

ENOUGH_BITS = 40
"""Of so many cases, 2^40, on the approximation is within 2 %, also of 3 tasks x 10."""

FEW_LABELLINGS = 1_000

MOST_DISTINCT = 2_000
"""Tasks with different scores from which on scores are rounded to 3 digits, so that more tasks are alike."""


class ExactTest(FrozenValue, frozen=True):
    """The share of all equally likely cases that are at least as far from no change as the case observed.

    ``smallest_p`` is that of the most extreme case: no outcome could have given less, so a test whose
    ``smallest_p`` is above the level can find nothing.
    """

    p: float
    smallest_p: float


NO_CHANGE = ExactTest(1.0, 1.0)


def sign_flip_test(differences: Iterable[float]) -> ExactTest:
    """Ask whether tasks like these change: were each task's difference as likely to have the other sign?

    (Fisher's randomization test of symmetry about 0, two-sided.) One difference for each task, -1..1; a task
    that did not change says nothing. With m tasks that changed, ``smallest_p`` is 2 / 2^m, and 1 with none.
    """
    return label_test(((0.0,), (difference,)) for difference in differences)


def label_test(tasks: Iterable[PairedScores]) -> ExactTest:
    """Ask whether these very tasks changed: were old and new only names, handed out anew within each task?

    (An exact permutation test within blocks, two-sided, of the mean over tasks of new mean less old mean.)
    All ways count in which a task's trials can be called old and new, as many old and as many new as there
    are; repetitions may differ. With one repetition it is the sign-flip test, with scores 0 and 1 McNemar's.
    """
    alike = Counter((tuple(old), tuple(new)) for old, new in tasks)
    blocks = _blocks(alike)
    if len(blocks) > MOST_DISTINCT:
        blocks = _blocks(_rounded(alike))
    if not blocks:
        return NO_CHANGE
    bits = 2 + math.ceil(math.fsum(count * math.log2(block.labellings) for block, count in blocks))
    extent = math.fsum(count * block.spread for block, count in blocks)
    most_steps = MOST_BITS / bits / extent
    exact = _common_denominator(blocks)
    if exact is not None and exact <= most_steps:
        return _counted(blocks, exact, bits)
    if bits > ENOUGH_BITS:
        return _approximated(blocks, exact)
    largest = max(score for block, _ in blocks for score in block.scores)
    grid = COARSE_GRID if any(block.labellings > FEW_LABELLINGS for block, _ in blocks) else GRID
    return _counted(blocks, max(1, min(math.ceil(grid / largest), int(most_steps))), bits)


class _Block:
    """The trials of one task, old ones first: their scores above the lowest of them, weighed.

    New mean less old mean is the sum of the new ones times ``1 / old + 1 / new``, less a constant. Weighed by
    that, or by any multiple of it that is the same for all tasks, the sum of the new ones is all that varies.
    """

    def __init__(self, old: Sequence[float], new: Sequence[float], weight: float) -> None:
        lowest = min(*old, *new)
        self.scores = [(score - lowest) * weight for score in (*old, *new)]
        self.old, self.new = len(old), len(new)
        self.labellings = math.comb(self.old + self.new, self.new)
        self.change = math.fsum(new) / self.new - math.fsum(old) / self.old
        self.spread = math.fsum(sorted(self.scores)[self.old :])
        """The largest that the sum of the new ones can be."""

    def whole(self, steps: int, tilt: float = 0.0) -> list[int]:
        """Give the scores in whole steps.

        What is halfway between two whole numbers is rounded up as often as down: ``tilt``, -0.5..0.5, says it
        for this task. Else tasks that are alike would add up what rounding takes from each.
        """
        return [round(score * steps + tilt) for score in self.scores]

    def new_sums(self, whole: Sequence[int]) -> Ways:
        """Count the ways to choose the new ones by their sum."""
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


_Blocks: TypeAlias = Sequence[tuple[_Block, int]]
"""Tasks whose trials do not all score the same, each with the number of tasks that are alike."""


def _blocks(alike: Mapping[tuple[tuple[float, ...], tuple[float, ...]], int]) -> _Blocks:
    sizes = {(len(old), len(new)) for old, new in alike}
    weights = {size: Fraction(sum(size), size[0] * size[1]) for size in sizes}
    heaviest = max(weights.values(), default=Fraction(1))
    shares = {size: float(weight / heaviest) for size, weight in weights.items()}
    return [
        (_Block(old, new, shares[len(old), len(new)]), count)
        for (old, new), count in alike.items()
        if max(*old, *new) - min(*old, *new) > SAME
    ]


def _rounded(
    alike: Mapping[tuple[tuple[float, ...], tuple[float, ...]], int],
) -> Counter[tuple[tuple[float, ...], tuple[float, ...]]]:
    rounded: Counter[tuple[tuple[float, ...], tuple[float, ...]]] = Counter()
    for (old, new), count in alike.items():
        rounded[
            tuple(round(score * GRID) / GRID for score in old),
            tuple(round(score * GRID) / GRID for score in new),
        ] += count
    return rounded


def _common_denominator(blocks: _Blocks) -> int | None:
    """Give the number that makes all scores whole; None where there is no small one."""
    common = 1
    for value in {score for block, _ in blocks for score in block.scores}:
        exact = Fraction(value).limit_denominator(LARGEST_DENOMINATOR)
        common = math.lcm(common, exact.denominator)
        if abs(exact - Fraction(value)) > SAME or common > LARGEST_DENOMINATOR:
            return None
    return common


def _counted(blocks: _Blocks, steps: int, bits: int) -> ExactTest:
    """Count all labellings by the sum of the new scores, each of them in whole steps.

    On a coarse grid the sum may lie on the other side of its mean than the change of the scores themselves:
    then neither is significant.
    """
    observed, ways = 0, []
    for at, block in enumerate(_each(blocks)):
        whole = block.whole(steps, ((at * GOLDEN) % 1 - 0.5) * ALMOST_ONE)
        observed += sum(whole[block.old :])
        ways.append(block.new_sums(whole))
    cases = math.prod(block.labellings**count for block, count in blocks)
    packed = _packed(ways, bits)
    middle = sum((_mean(each) for each in ways), Fraction(0))
    highest, lowest = sum(map(max, ways)), sum(map(min, ways))

    def share(distance: Fraction) -> float:
        if not distance:
            return 1.0
        above = _at_least(packed, math.ceil(middle + distance), bits)
        below = cases - _at_least(packed, math.floor(middle - distance) + 1, bits)
        return float(Fraction(above + below, cases))

    change = math.fsum(count * block.change for block, count in blocks)
    opposed = (observed - middle) * Fraction(change) < 0
    p = 1.0 if opposed else share(abs(observed - middle))
    return ExactTest(p, share(max(highest - middle, middle - lowest)))


def _each(blocks: _Blocks) -> Iterator[_Block]:
    return (block for block, count in blocks for _ in range(count))


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


def _approximated(blocks: _Blocks, exact: int | None) -> ExactTest:
    """Approximate how far from its mean the sum of the new scores lies, each of them in whole steps."""
    ways: Counter[frozenset[tuple[int, int]]] = Counter()
    observed = 0
    steps = exact or LARGEST_DENOMINATOR
    for block, count in blocks:
        many = block.labellings > FEW_LABELLINGS
        scale = max(1, steps // COARSE_GRID) if many else 1
        whole = block.whole(steps // scale)
        observed += count * scale * sum(whole[block.old :])
        ways[frozenset((scale * total, number) for total, number in block.new_sums(whole).items())] += count
    is_symmetric = all(block.old == block.new for block, _ in blocks)
    return _tested({key: count for key, count in ways.items() if len(key) > 1}, observed, is_symmetric)


def _tested(ways: Mapping[frozenset[tuple[int, int]], int], observed: int, is_symmetric: bool) -> ExactTest:
    lattice = math.gcd(*(value - low for key in ways for low, _ in [min(key)] for value, _ in key))
    up = SumTail((part_of(dict(key), count) for key, count in ways.items()), lattice)
    down = up if is_symmetric else _mirrored(ways, lattice)

    def share(distance: float) -> float:
        if distance <= SAME:
            return 1.0
        sides = [side.at_least(side.next_from(side.mean + distance)) for side in {up, down}]
        return min(1.0, math.fsum(sides) * 2 / len(sides))

    return ExactTest(share(abs(observed - up.mean)), share(max(up.highest - up.mean, up.mean - up.lowest)))


def _mirrored(ways: Mapping[frozenset[tuple[int, int]], int], lattice: int) -> SumTail:
    return SumTail(
        (part_of({-value: number for value, number in key}, count) for key, count in ways.items()), lattice
    )

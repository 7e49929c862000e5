"""Exact tests of old against new scores, paired by task: no distribution is assumed, nothing is drawn.

Both tests ask how often chance alone would move the mean of the tasks' differences as far as it moved. All
cases are counted by adding up distributions: how likely each sum is, in whole numbers. For that, scores are
made whole: fractions with a small common denominator (halves, quarters, twelfths) exactly, others on a grid.
Rounding treats old and new alike, so the test keeps its level. Where few sums are possible, as with 16 tasks
tried once, each is listed, whatever the scores.

Where the grid would have to be too coarse, and the sum is smooth enough, p is the saddlepoint approximation
of Lugannani and Rice (1980), for sums on a lattice with Daniels' (1987) second correction for continuity. Its
relative error falls with the number of parts: of a thousand and more it is in the third digit or behind, also
far out in the tail. Either is within about 3 % of the exact p, unless a few tasks change wholly and all
others by less than a hundredth of that.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from operator import mul
from typing import NamedTuple, TypeAlias

from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import FrozenValue

# Closer to the mean than this, in standard deviations, half of all cases lie beyond, with an error below this
# number.
NEAR = 1e-5

MOST_STEPS = 200
ALMOST = 1e-6
# The largest argument for which the hyperbolic sine is still a finite number.
LARGEST = 700
LOG_2 = math.log(2)


class Part(NamedTuple):
    """``times`` summands with the same distribution: their possible values, and how likely each is."""

    times: int
    values: tuple[float, ...]
    shares: tuple[float, ...]


class _Cumulants(NamedTuple):
    """The cumulant function of the sum at one point, with its first two derivatives."""

    value: float
    slope: float
    curvature: float


class SumTail:
    """A sum of independent parts; ``spacing`` is that of its lattice, 0 where it has none that matters."""

    def __init__(self, parts: Iterable[Part], spacing: float = 0.0) -> None:
        self._parts = tuple(parts)
        self._spacing = spacing
        self.mean = math.fsum(
            count * math.fsum(value * share for value, share in zip(values, shares, strict=True))
            for count, values, shares in self._parts
        )
        self.highest = math.fsum(count * max(values) for count, values, _ in self._parts)
        self.lowest = math.fsum(count * min(values) for count, values, _ in self._parts)
        self._deviation = math.sqrt(self._at(0.0).curvature)

    def next_from(self, total: float) -> float:
        """Give the first value of the sum that is ``total`` or more, give or take rounding."""
        if not self._spacing:
            return total
        # A total that rounding puts just above a step is still on it.
        steps = math.ceil((total - self.lowest) / self._spacing - ALMOST)
        return self.lowest + steps * self._spacing

    def at_least(self, total: float) -> float:
        """Give the share of cases in which the sum is ``total`` or more."""
        # Continuity correction: halfway between the total and the value below it.
        reached = total - self._spacing / 2
        if reached <= self.lowest:
            return 1.0
        # At the end of the range there is no saddlepoint. The share of the highest value is known exactly.
        if total >= self.highest - self._deviation * NEAR:
            return self._share_of_highest() if reached < self.highest else 0.0
        # Here the two terms of the formula would both be huge, and cancel each other.
        if abs(reached - self.mean) <= NEAR * self._deviation:
            return 0.5
        return self._beyond(reached)

    def _beyond(self, reached: float) -> float:
        """Give the tail by Lugannani and Rice; on a lattice with Daniels' second correction."""
        t, found = self._saddlepoint(reached)
        distance = math.copysign(math.sqrt(max(0.0, 2 * (t * reached - found.value))), t)
        half, step = t * self._spacing / 2, t
        if self._spacing:
            step = math.sinh(half) * 2 / self._spacing if abs(half) < LARGEST else math.inf
        scaled = math.copysign(step * math.sqrt(found.curvature), t)
        density = math.exp(-distance * distance / 2) / math.sqrt(2 * math.pi)
        tail = math.erfc(distance / math.sqrt(2)) / 2
        return min(1.0, max(0.0, tail + density * (1 / scaled - 1 / distance)))

    def _saddlepoint(self, reached: float) -> tuple[float, _Cumulants]:
        """Give the place where the slope is what is reached: by Newton's steps, within the known bounds."""
        low, high = -math.inf, math.inf
        t = (reached - self.mean) / self._deviation**2
        found = self._at(t)
        for _ in range(MOST_STEPS):
            missing = reached - found.slope
            if abs(missing) <= 1e-9 * self._deviation:
                break
            low, high = (t, high) if missing > 0 else (low, t)
            t = _within(t + missing / found.curvature if found.curvature else math.inf, low, high)
            found = self._at(t)
        return t, found

    def _at(self, t: float) -> _Cumulants:
        parts = [(part.times, _cumulants(part, t)) for part in self._parts]
        return _Cumulants(*(math.fsum(count * found[at] for count, found in parts) for at in range(3)))

    def _share_of_highest(self) -> float:
        chances = [(part.times, max(zip(part.values, part.shares, strict=True))[1]) for part in self._parts]
        return math.exp(math.fsum(count * math.log(chance) for count, chance in chances))


def _within(t: float, low: float, high: float) -> float:
    """Hold a step within bounds that are known to be too low and too high."""
    if low < t < high:
        return t
    if math.isinf(low):
        return 2 * high if high < 0 else -1.0
    if math.isinf(high):
        return 2 * low if low > 0 else 1.0
    return (low + high) / 2


def _cumulants(part: Part, t: float) -> tuple[float, float, float]:
    _, values, shares = part
    # By far the most parts are of this kind, and there may be thousands of them.
    if len(values) == 2 and shares[0] == 0.5:
        first, second = values
        step = t * (second - first)
        # Written so that no exponent is above 0, and nothing overflows.
        fall = math.exp(-abs(step))
        upper = 1 / (1 + fall) if step > 0 else fall / (1 + fall)
        value = t * first + max(step, 0.0) + math.log1p(fall) - LOG_2
        return value, first + (second - first) * upper, (second - first) ** 2 * upper * (1 - upper)
    # Taken out of the sum, so that no exponential overflows.
    largest = t * (max(values) if t > 0 else min(values))
    exp = math.exp
    weights = [share * exp(t * value - largest) for value, share in zip(values, shares, strict=True)]
    whole = sum(weights)
    mean = sum(map(mul, values, weights)) / whole
    away = [value - mean for value in values]
    return largest + math.log(whole), mean, sum(map(mul, map(mul, away, away), weights)) / whole


def part_of(ways: Mapping[float, int], count: int = 1) -> Part:
    """Make a part of so many summands, whose values come about in these numbers of ways."""
    cases = sum(ways.values())
    return Part(count, tuple(ways), tuple(number / cases for number in ways.values()))


# The old and the new scores of one task, each one or more.
PairedScores: TypeAlias = tuple[Sequence[float], Sequence[float]]

# In how many ways each sum can come about. Sums are 0 or more.
Ways: TypeAlias = Mapping[int, int]

# How many steps the largest score has when cases are counted: at least, and at most for tasks of 20
# labellings or fewer.
GRID, GRID_OF_FEW = 250, 20_000

# How many steps the largest score has in an approximation: for tasks with many different sums, and for
# others.
COARSE_GRID, FINE_GRID = 100, 100_000

LARGEST_DENOMINATOR = 1_000_000
GOLDEN = (math.sqrt(5) - 1) / 2
ALMOST_ONE = 1 - 1e-3

# How a probability is written when cases are counted: 1 is 2^90, and the other bits of a digit leave room to
# multiply.
DIGIT_BITS, WHOLE_BITS = 128, 90

# Sums are listed one by one if that takes no more additions than this: those of 16 tasks tried once. Scores
# are in steps this fine.
MOST_ADDITIONS, LISTED_STEPS = 1 << 17, 10**12
# How many times too high an estimate of additions may be.
TOO_HIGH = 2

# The work of counting, which takes up to about 0.2 seconds.
MOST_WORK = 5_000_000
# To multiply numbers of n and m digits, n the longer one, takes about n m^0.585 steps.
KARATSUBA = math.log2(3) - 1

# By what share of its standard deviation rounding may move the sum: usually, and where sums are lumpy.
FINE, COARSE = 0.004, 0.03

# Sums are lumpy if some tasks move them this many times as far as all others.
GAP = 4

FEW_TRIALS = math.comb(6, 3)
# Up to this many labellings of a task are listed, so that its different sums enter the approximation.
FEW_LABELLINGS = 1_000

MOST_LABELLINGS = 1 << (DIGIT_BITS - WHOLE_BITS - 2)

# With more tasks of different scores than this, scores are rounded to 3 digits, so that more tasks are alike.
MOST_DISTINCT = 2_000


class ExactTest(FrozenValue, frozen=True):
    """The share of all equally likely cases that are at least as far from no change as the case observed.

    ``smallest_p`` is that of the most extreme case: no outcome could have given less, so a test whose
    ``smallest_p`` is above the level can find nothing.
    """

    p: float
    smallest_p: float


NO_CHANGE = ExactTest(1.0, 1.0)


def sign_flip_test(differences: Iterable[float], sharing: int = 1) -> ExactTest:
    """Ask whether tasks like these change: were each task's difference as likely to have the other sign?

    (Fisher's randomization test of symmetry about 0, two-sided.) One difference for each task, -1..1; a task
    that did not change says nothing. With m tasks that changed, ``smallest_p`` is 2 / 2^m, and 1 with none.
    """
    return label_test((((0.0,), (difference,)) for difference in differences), sharing)


def label_test(tasks: Iterable[PairedScores], sharing: int = 1) -> ExactTest:
    """Ask whether these very tasks changed: were old and new only names, handed out anew within each task?

    (An exact permutation test within blocks, two-sided, of the mean over tasks of new mean less old mean.)
    All ways count in which a task's trials can be called old and new, as many old and as many new as there
    are; repetitions may differ. With one repetition it is the sign-flip test, with scores 0 and 1 McNemar's.

    So many tests as are ``sharing`` take about as long as a single one: where scores have no small common
    denominator, the grid is coarser, or p is approximated earlier.
    """
    alike = Counter((tuple(old), tuple(new)) for old, new in tasks)
    blocks = _blocks(alike)
    if len(blocks) > MOST_DISTINCT:
        blocks = _blocks(_rounded(alike, max(block.largest for block, _ in blocks)))
    if not blocks:
        return NO_CHANGE
    most_steps = _most_steps(blocks, MOST_WORK / sharing)
    # Scores with a small common denominator are counted exactly.
    exact = common_denominator({score for block, _ in blocks for score in block.scores}, LARGEST_DENOMINATOR)
    if exact is not None and exact <= most_steps:
        return _counted(blocks, exact)
    if not _is_beyond_listing(blocks, exact) and (listed := _listed(blocks)):
        return listed
    largest, deviation = max(block.largest for block, _ in blocks), _deviation(blocks)
    # Fine enough that rounding moves the sum by no more than a small part of its deviation.
    fine = max(GRID / largest, _rounding(blocks) / deviation / FINE)
    if all(block.labellings <= FEW_TRIALS for block, _ in blocks):
        fine = GRID_OF_FEW / largest
    steps = int(min(fine, most_steps))
    # The approximation is bad where sums are lumpy: there even a coarser grid is better.
    if steps and _rounding(blocks) <= (COARSE if _is_lumpy(blocks) else FINE) * deviation * (steps + 1):
        return _counted(blocks, steps)
    return _approximated(blocks, exact)


def common_denominator(scores: Iterable[float], largest: int) -> int | None:
    """Give the number that makes all scores whole, give or take rounding; None where it is not so small."""
    common = 1
    for score in set(scores):
        exact = Fraction(score).limit_denominator(largest)
        common = math.lcm(common, exact.denominator)
        if abs(exact - Fraction(score)) > ROUNDING or common > largest:
            return None
    return common


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
        self.largest = max(self.scores)

    @property
    def spread(self) -> float:
        """The largest sum of the new ones less the smallest."""
        ordered = sorted(self.scores)
        return math.fsum(ordered[self.old :]) - math.fsum(ordered[: self.new])

    @property
    def variance(self) -> float:
        """The variance of the sum of the new ones over all labellings: of draws without replacement."""
        trials = self.old + self.new
        mean = math.fsum(self.scores) / trials
        squares = math.fsum((score - mean) ** 2 for score in self.scores)
        return self.old * self.new * squares / trials / (trials - 1)

    def whole(self, steps: int, tilt: float = 0.0) -> list[int]:
        """Give the scores in whole steps.

        A score halfway between two whole numbers is rounded up as often as down: ``tilt``, -0.5..0.5, decides
        it for this task. Else the rounding errors of tasks that are alike would add up.
        """
        return [round(score * steps + tilt) for score in self.scores]

    def new_sums(self, whole: Sequence[int]) -> Ways:
        """Count the ways to choose the new ones, by their sum."""
        if self.labellings <= FEW_LABELLINGS:
            return Counter(map(sum, combinations(whole, self.new)))
        # Bytes that hold the largest count, so that no count runs into the next one.
        width = self.labellings.bit_length() // 8 + 1
        # sums[j] holds the ways to choose j trials, those for the sum s at its byte s * width
        sums = [1, *[0] * self.new]
        for score in whole:
            # Downwards, so that no trial is chosen twice.
            for chosen in range(self.new, 0, -1):
                sums[chosen] += sums[chosen - 1] << (8 * width * score)
        digits = sums[self.new].to_bytes(sums[self.new].bit_length() // 8 + width, "little")
        ways = (int.from_bytes(digits[at : at + width], "little") for at in range(0, len(digits), width))
        return {total: count for total, count in enumerate(ways) if count}


# Tasks whose trials do not all have the same score, each with the number of tasks that are like it.
_Blocks: TypeAlias = Sequence[tuple[_Block, int]]


def _blocks(alike: Mapping[tuple[tuple[float, ...], tuple[float, ...]], int]) -> _Blocks:
    sizes = {(len(old), len(new)) for old, new in alike}
    # Fractions, so that equal weights are exactly equal.
    weights = {size: Fraction(sum(size), size[0] * size[1]) for size in sizes}
    heaviest = max(weights.values(), default=Fraction(1))
    shares = {size: float(weight / heaviest) for size, weight in weights.items()}
    return [
        (_Block(old, new, shares[len(old), len(new)]), count)
        for (old, new), count in alike.items()
        if max(*old, *new) - min(*old, *new) > ROUNDING
    ]


def _rounded(
    alike: Mapping[tuple[tuple[float, ...], tuple[float, ...]], int], largest: float
) -> Counter[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Round scores to a thousandth of the largest of those that vary."""
    step = largest / 1_000
    rounded: Counter[tuple[tuple[float, ...], tuple[float, ...]]] = Counter()
    for both, count in alike.items():
        old, new = (tuple(step * round(score / step) for score in side) for side in both)
        rounded[old, new] += count
    return rounded


def _most_steps(blocks: _Blocks, work: float) -> float:
    """Give the finest grid, in steps of a score of 1, on which counting takes no more than this work."""
    if max(block.labellings for block, _ in blocks) > MOST_LABELLINGS:
        return 0.0
    extent = math.fsum(count * block.spread for block, count in blocks)
    each = math.fsum(count * block.spread**KARATSUBA for block, count in blocks)
    # Each task multiplies a number of extent · steps digits by one of spread · steps. The work, extent · each
    # · steps^(1 + KARATSUBA), is solved for steps.
    return math.pow(work / extent / each, 1 / (1 + KARATSUBA))


def _rounding(blocks: _Blocks) -> float:
    """Give the standard deviation, in steps, of the error that rounding brings into the sum."""
    trials = math.fsum(count * block.old * block.new / (block.old + block.new) for block, count in blocks)
    # The error of one score is evenly distributed over a step, with a variance of 1/12.
    return math.sqrt(trials / 12)


def _deviation(blocks: _Blocks) -> float:
    return math.sqrt(math.fsum(count * block.variance for block, count in blocks))


def _is_lumpy(blocks: _Blocks) -> bool:
    """Whether the sum lies in heaps: some tasks move it far, and the others do not fill the gaps."""
    ordered = sorted(((block.spread, count * block.variance) for block, count in blocks), reverse=True)
    rest = math.fsum(variance for _, variance in ordered)
    for (spread, variance), (following, _) in pairwise(ordered):
        rest -= variance
        if spread > GAP * following and spread > 2 * math.sqrt(max(0.0, rest)):
            return True
    return False


def _is_beyond_listing(blocks: _Blocks, exact: int | None) -> bool:
    """Whether there are too many sums for a list, so that none is started.

    Sums of tasks that are alike coincide, and so do those on the lattice of a common denominator; other sums
    seldom do. A list that is given up takes longer than many an approximation.
    """
    sums, additions, extent = 1.0, 0.0, 0.0
    for block, count in blocks:
        if block.labellings > FEW_LABELLINGS:
            return True
        different = len(block.new_sums(block.whole(LISTED_STEPS)))
        extent += count * block.spread
        sums *= math.comb(count + different - 1, count)
        additions += sums
        if additions > TOO_HIGH * MOST_ADDITIONS:
            return True
        if exact is not None:
            sums = min(sums, exact * extent + 1)
    return False


def _listed(blocks: _Blocks) -> ExactTest | None:
    """Count all labellings by the sum of the new scores, without rounding; None of too many sums."""
    if max(block.labellings for block, _ in blocks) > FEW_LABELLINGS:
        return None
    sums: Ways = {0: 1}
    observed, mean, additions = 0, Fraction(0), 0
    for block in _each(blocks):
        whole = block.whole(LISTED_STEPS)
        ways = block.new_sums(whole)
        additions += len(sums) * len(ways)
        if additions > MOST_ADDITIONS:
            return None
        observed += sum(whole[block.old :])
        mean += _mean(ways)
        # Thousands of sums of dozens of tasks: a plain dict is three times as quick as a Counter.
        longer: defaultdict[int, int] = defaultdict(int)
        for total, count in sums.items():
            for more, number in ways.items():
                longer[total + more] += count * number
        sums = longer

    def share(distance: Fraction) -> float:
        # Sums that differ by rounding alone are equally far. Whole numbers are compared: fractions are slow.
        parts, whole_mean = mean.denominator, mean.numerator
        near = math.ceil((distance - Fraction(ROUNDING) * LISTED_STEPS) * parts)
        far = sum([count for total, count in sums.items() if abs(total * parts - whole_mean) >= near])
        return float(Fraction(far, sum(sums.values())))

    farthest = max(mean - min(sums), max(sums) - mean)
    return ExactTest(share(abs(observed - mean)), share(farthest))


def _counted(blocks: _Blocks, steps: int) -> ExactTest:
    """Count all labellings by the sum of the new scores, each of them in whole steps."""
    observed, ways = 0, []
    for at, block in enumerate(_each(blocks)):
        # Multiples of the golden ratio, modulo 1, are spread evenly for any number of tasks. A tilt of less
        # than a half leaves whole scores as they are.
        whole = block.whole(steps, ((at * GOLDEN) % 1 - 0.5) * ALMOST_ONE)
        sums = block.new_sums(whole)
        lowest = min(sums)
        observed += sum(whole[block.old :]) - lowest
        ways.append({total - lowest: count for total, count in sums.items()})
    shares = _shares(ways)
    mean = sum((_mean(each) for each in ways), Fraction(0))
    highest = sum(map(max, ways))
    whole_share = _at_least(shares, 0)

    def share(distance: Fraction) -> float:
        if not distance:
            return 1.0
        above = _at_least(shares, math.ceil(mean + distance))
        below = whole_share - _at_least(shares, math.floor(mean - distance) + 1)
        return float(Fraction(above + below, whole_share))

    ends = {0: mean, highest: highest - mean}
    farthest = max(ends.values())
    smallest_p = math.fsum(_share_of(end, ways) for end, away in ends.items() if away == farthest)
    change = math.fsum(count * block.change for block, count in blocks)
    # On a grid the sum may be on the other side of its mean than the change of the scores themselves: then
    # neither is significant.
    opposed = (observed - mean) * Fraction(change) < 0
    p = 1.0 if opposed else share(abs(observed - mean))
    # Shares are cut off at their last digit, while the smallest p is exact.
    return ExactTest(max(p, min(1.0, smallest_p)), min(1.0, smallest_p))


def _each(blocks: _Blocks) -> Iterator[_Block]:
    return (block for block, count in blocks for _ in range(count))


def _mean(ways: Ways) -> Fraction:
    return Fraction(sum(total * count for total, count in ways.items()), sum(ways.values()))


def _share_of(end: int, ways: Sequence[Ways]) -> float:
    """Give the share of all cases that have the lowest sum of all, 0, or the highest."""
    counts = math.prod(each[max(each) if end else 0] for each in ways)
    return float(Fraction(counts, math.prod(sum(each.values()) for each in ways)))


def _shares(ways: Iterable[Ways]) -> int:
    """Add up distributions: the share of each sum s, as the digit s of one number to the base 2^128.

    Two distributions are added by multiplying their numbers. The excess bits of each digit are cut off at its
    end: of shares that add up to 2^90, this is some 10^-25 of the whole.
    """
    packed, size, certainty = 1, 0, 1
    width = DIGIT_BITS // 8
    for each in ways:
        digits = bytearray(width * (max(each) + 1))
        for total, count in each.items():
            digits[total * width : (total + 1) * width] = count.to_bytes(width, "little")
        packed *= int.from_bytes(digits, "little")
        size += max(each)
        certainty *= sum(each.values())
        if excess := max(0, certainty.bit_length() - WHOLE_BITS):
            # Bits that leave one digit must not get into the one below.
            mask = ((1 << (DIGIT_BITS - excess)) - 1).to_bytes(width, "little") * (size + 1)
            packed = (packed >> excess) & int.from_bytes(mask, "little")
            certainty >>= excess
    return packed


def _at_least(shares: int, total: int) -> int:
    """Add up the shares of sums of ``total`` or more."""
    # modulo base - 1 a number is the sum of its digits, and that sum is smaller than base - 1
    return (shares >> (max(total, 0) * DIGIT_BITS)) % ((1 << DIGIT_BITS) - 1)


def _approximated(blocks: _Blocks, exact: int | None) -> ExactTest:
    """Approximate how far from its mean the sum of the new scores lies, with scores in whole steps."""
    ways: Counter[frozenset[tuple[int, int]]] = Counter()
    observed = 0
    largest = max(block.largest for block, _ in blocks)
    steps = exact or math.ceil(FINE_GRID / largest)
    for block, count in blocks:
        # A task with many labellings has many different sums, and gets a coarser grid.
        many = block.labellings > FEW_LABELLINGS
        scale = max(1, int(steps * largest / COARSE_GRID)) if many else 1
        whole = [round(score / scale) for score in block.whole(steps)]
        observed += count * scale * sum(whole[block.old :])
        ways[frozenset((scale * total, number) for total, number in block.new_sums(whole).items())] += count
    is_symmetric = all(block.old == block.new for block, _ in blocks)
    # A task with only one sum moves nothing.
    return _tested({key: count for key, count in ways.items() if len(key) > 1}, observed, is_symmetric)


def _tested(ways: Mapping[frozenset[tuple[int, int]], int], observed: int, is_symmetric: bool) -> ExactTest:
    # Every sum of a task is its lowest one plus a multiple of this.
    lattice = math.gcd(*(value - low for key in ways for low, _ in [min(key)] for value, _ in key))
    up = down = SumTail((part_of(dict(key), count) for key, count in ways.items()), lattice)
    # With as many old trials as new ones, both tails are the same.
    if not is_symmetric:
        mirrored = (part_of({-value: number for value, number in key}, count) for key, count in ways.items())
        down = SumTail(mirrored, lattice)

    def share(distance: float) -> float:
        if distance <= ROUNDING:
            return 1.0
        # A set: equal tails are computed once, and counted twice.
        sides = [side.at_least(side.next_from(side.mean + distance)) for side in {up, down}]
        return min(1.0, math.fsum(sides) * 2 / len(sides))

    return ExactTest(share(abs(observed - up.mean)), share(max(up.highest - up.mean, up.mean - up.lowest)))


# By how much a p-value may differ from what it would be without rounding.
P_ROUNDING = 1e-12


class FamilyTest(FrozenValue, frozen=True):
    """One test among others: whether it could have been significant at all, and whether it is."""

    testable: bool
    significant: bool


def tarone_holm(tests: Sequence[ExactTest], level: float) -> list[FamilyTest]:
    """Say which tests are significant so that a false one is among them with probability ``level`` at most.

    A test that could not have been significant whatever was observed costs the others nothing (Tarone 1990):
    p is significant if p times the number of tests that can reach it is at most the level. Significant tests
    are set aside, and the others are looked at again (Holm 1979; Hommel and Krummenauer 1998). ``testable``
    are those whose smallest p would be significant in the first round, or whose p was later.
    """
    remaining = set(range(len(tests)))
    testable = {at for at in remaining if _significant(tests[at].smallest_p, tests, remaining, level)}
    significant: set[int] = set()
    while rejected := {at for at in remaining if _significant(tests[at].p, tests, remaining, level)}:
        significant |= rejected
        remaining -= rejected
    return [FamilyTest(at in testable | significant, at in significant) for at in range(len(tests))]


def _significant(p: float, tests: Sequence[ExactTest], remaining: Collection[int], level: float) -> bool:
    """Say whether tests that can reach ``p`` may share the level with it: each would be wrong that often."""
    able = sum(tests[at].smallest_p <= p + P_ROUNDING for at in remaining)
    return p * able <= level + P_ROUNDING

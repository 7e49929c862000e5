"""Whether a verdict and the interval printed beside it ever contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from pytest_agenteval.compare.findings import FEWEST_FOR_SIGNS, LEVEL
from pytest_agenteval.scoring.exact_tests import sign_flip_interval, sign_flip_test
from tests.simulations.parallel import in_parallel
from tests.simulations.rows import Row, share_row
from tests.simulations.score_model import compared, diffuse, drawn_suite, moved

PAIRS, PARTS = 10_000, 20
OUTSIDE = 0.005
"""Half the last printed digit: beyond an end by so much the test contradicts a change, within it does not."""


def run(scale: float, seed: int) -> Iterator[Row]:
    """Count contradictions among random comparisons: of 7 to 45 tasks, in quarters or any numbers.

    A verdict needs an interval that leaves 0 out on the same side, and the other way round. Beside it, how
    often a change a little beyond an end is not contradicted by the test, or one a little within it is.
    """
    pairs = max(10, round(PAIRS * scale / PARTS))
    counts = in_parallel(contradictions, [(pairs, seed + at) for at in range(PARTS)])
    note = f"{sum(significant for *_, significant in counts)} of {pairs * PARTS} significant"
    yield Row("verdict against interval", sum(against for against, *_ in counts), "<=", 0, note=note)
    loose = sum(loose for _, loose, _ in counts)
    note = f"{loose} ends: the search for them and the test round to different grids"
    what = "ends half a printed digit or more from where the test turns"
    yield share_row(what, loose, 2 * pairs * PARTS, "<=", 0.001, note)


def contradictions(pairs: int, seed: int) -> tuple[int, int, int]:
    """Count contradictions, loose ends and significant comparisons."""
    random = Random(f"contradictions {seed}")
    against = loose = significant = 0
    for _ in range(pairs):
        differences = random_differences(random)
        interval = sign_flip_interval(differences, LEVEL)
        verdict = sign_flip_test(differences).p <= 1 - LEVEL
        up = sum(differences) > 0
        against += (interval.low > 0) != (verdict and up) or (interval.high < 0) != (verdict and not up)
        loose += _loose(differences, interval.low, 1) + _loose(differences, interval.high, -1)
        significant += verdict
    return against, loose, significant


def random_differences(random: Random) -> list[float]:
    """Give task differences of a suite that did not change, moved or rose."""
    tasks = random.randint(FEWEST_FOR_SIGNS, 45)
    before = drawn_suite(tasks, random)
    after = random.choice((before, moved(before, random), diffuse(before, random.random() / 3)))
    old, new = random.randint(1, 4), random.randint(1, 4)
    if random.random() < 0.3:
        shift = random.uniform(-0.3, 0.3)
        return [min(1.0, max(-1.0, random.gauss(shift, 0.3))) for _ in range(tasks)]
    return [sum(b) / len(b) - sum(a) / len(a) for a, b in compared(before, after, old, new, random)]


def _loose(differences: list[float], end: float, inwards: int) -> bool:
    """Whether the test does not turn at an end; ends at -1 and 1 leave nothing beyond."""
    if abs(end) >= 1 - OUTSIDE:
        return False
    beyond = sign_flip_test([each - (end - inwards * OUTSIDE) for each in differences]).p
    within = sign_flip_test([each - (end + inwards * OUTSIDE) for each in differences]).p
    return beyond > 1 - LEVEL or within <= 1 - LEVEL

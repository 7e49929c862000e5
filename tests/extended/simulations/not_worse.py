"""How often "not worse by more than 0.05" is claimed of a fall by 0.05 or more, and how often intervals hold.

Both speak of tasks like these: the changes are drawn for each task anew, and their true mean is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tests.extended.simulations.designs import BUCKETS, contradicts
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row, worst_rows
from tests.extended.simulations.score_model import MODELS, ScoreModel, Suite, fallen, risen
from tests.extended.simulations.shapes import TOLERANCE, Shape

RUNS, FEW = 2_000, 30
CLAIMS, COVERAGE = 0.0125, 0.96


@dataclass(frozen=True, slots=True)
class TrueChange:
    """A change by which the mean of tasks like these moves by ``by``: a little of all, or a few wholly."""

    by: float = 0.0
    wholly: bool = False

    def __str__(self) -> str:
        if not self.by:
            return "nothing changed"
        return f"{self.by:+g}, {'a few tasks wholly' if self.wholly else 'all tasks a little'}"

    def made(self, suite: Suite, model: ScoreModel, random: Random) -> Suite:
        """Give the suite after the change."""
        effect, by = "focused" if self.wholly else "diffuse", self.by / (1 - model.jitter)
        if by < 0:
            return fallen(suite, effect, -by / model.mean, random)
        return risen(suite, effect, by / (1 - model.mean), random)


SAME, BREAKS, MORE_BREAK = TrueChange(), TrueChange(-0.05, wholly=True), TrueChange(-0.1, wholly=True)
FALL, LARGER_FALL = TrueChange(-0.05), TrueChange(-0.08)
RISE, FEW_RISE = TrueChange(0.2), TrueChange(0.2, wholly=True)


def _shapes(*repetitions: tuple[int, int], tasks: Sequence[int] = (8, 15, 41, 91)) -> list[Shape]:
    return [Shape(BUCKETS[number], *each) for number in tasks for each in repetitions]


ONCE, THRICE = _shapes((1, 1)), _shapes((3, 3))
ALL_SIZES = _shapes((1, 1), tasks=(8, 15, 41, 91, 150))
ERRORED = [Shape(BUCKETS[tasks], 1, 1, errored=0.1) for tasks in (41, 150)]

CELLS: Sequence[tuple[TrueChange, str, Sequence[Shape]]] = (
    (BREAKS, "always passes", (*ALL_SIZES, *ERRORED)),
    (BREAKS, "always .95 to 1", (*ALL_SIZES, *_shapes((3, 1), tasks=(15, 91)))),
    (MORE_BREAK, "always passes", ALL_SIZES),
    (MORE_BREAK, "always .95 to 1", ALL_SIZES),
    (BREAKS, "pass/fail, all p = .98", (*ONCE, *_shapes((3, 1), tasks=(41, 91)))),
    (FALL, "pass/fail, all p = .98", ONCE),
    (LARGER_FALL, "pass/fail, all p = .98", (*ONCE, *THRICE, *_shapes((3, 1)))),
    (BREAKS, "pass/fail, p ~ Beta(9, .5)", THRICE),
    (SAME, "pass/fail, p ~ Beta(.3, .3)", (*ONCE, *THRICE)),
    (RISE, "pass/fail, p ~ Beta(.3, .3)", THRICE),
    (FEW_RISE, "pass/fail, p ~ Beta(.3, .3)", (*ONCE, *THRICE)),
    (BREAKS, "quarters", THRICE),
    (RISE, "quarters", THRICE),
    (MORE_BREAK, "continuous", _shapes((1, 1), tasks=(15, 41))),
)


class Counts(NamedTuple):
    """How many comparisons claim "not worse by more than 0.05", and how many intervals hold the truth."""

    claims: int
    held: int
    contradictions: int


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the worst design of each change and score model: false claims at 1.25 %, and coverage at 96 %.

    A claim is false where tasks like these fall by 0.05 or more. The interval is that of 97.5 %.
    """
    runs = max(FEW, round(RUNS * scale))
    contradictions = comparisons = 0
    for change, model, shapes in CELLS:
        cells = [(change, model, shape, runs, seed) for shape in shapes]
        counts = dict(zip(map(str, shapes), in_parallel(claims_and_coverage, cells), strict=True))
        contradictions += sum(each.contradictions for each in counts.values())
        comparisons += runs * len(shapes)
        if change.by <= -TOLERANCE:
            claims = {shape: each.claims for shape, each in counts.items()}
            yield from worst_rows(f"{change}, {model}: called not worse", claims, runs, "<=", CLAIMS)
        held = {shape: each.held for shape, each in counts.items()}
        yield from worst_rows(f"{change}, {model}: interval holds", held, runs, ">=", COVERAGE)
    note = f"of {comparisons} comparisons"
    yield Row("verdicts that contradict their interval", contradictions, "<=", 0, note=note)


def claims_and_coverage(change: TrueChange, model: str, shape: Shape, runs: int, seed: int) -> Counts:
    """Count false claims, and intervals that hold the true change of tasks like these."""
    random = Random(f"not worse {change} {model} {shape} {seed}")
    scores, seen = MODELS[model], []
    for _ in range(runs):
        before = scores.suite(shape.tasks, random)
        suite = shape.judge(before, change.made(before, scores, random), random, scores).suite
        held = suite.interval is not None and suite.interval.low <= change.by <= suite.interval.high
        seen.append(Counts(suite.excludes_fall(TOLERANCE), held, contradicts(suite)))
    return Counts(*map(sum, zip(*seen, strict=True)))

"""Where verdicts are false more often than promised: how often, and how often a note says so.

Whole buckets move or fail together, or rare breaks offset a rise that is the same in all other tasks.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from pytest_agenteval.reports.comparison_text import share_text
from tests.extended.simulations.designs import BUCKETS, direction
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row, share_row
from tests.extended.simulations.score_model import MODELS, Suite, Task, diffuse, focused, pass_fail
from tests.extended.simulations.shapes import FOUR_EVEN, MANY_SMALL, SEVEN_LARGE, Shape, judged

RUNS, FEW, PARTS = 2_000, 40, 2
NEW_RATES, FAIL_TOGETHER, RISE = 0.3, 0.1, 0.15
SHAPES = {
    "41 x3 in 8 buckets": Shape((6, *[5] * 7), 3, 3),
    "41 x3 in 25 buckets": Shape(MANY_SMALL, 3, 3),
    "91 x3 in 7 buckets": Shape(SEVEN_LARGE, 3, 3),
    "40 x3 in 4 buckets": Shape(FOUR_EVEN, 3, 3),
}
NULLS = ("30 % of buckets get a new rate", "a bucket fails in 10 % of runs")
CHANGES = ("all tasks rise a little", "a few tasks rise wholly")


class Counts(NamedTuple):
    """Verdicts on a suite, those on tasks like these, and how many carry a note on buckets.

    ``one_bucket`` says that one bucket accounts for it; any note also that buckets, as units, do not agree.
    """

    verdicts: int
    like_these: int
    one_bucket: int
    any_note: int


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give how often suites are called better or worse, and the share of these verdicts that carry a note.

    The first four rows are of tasks like these (the tasks at hand did move), the next four of any verdict:
    both are beyond what is promised, so they have no goal. Rises by 0.15 are spread over all buckets: the
    note "one bucket accounts for it" would be false. Tasks pass or fail: by their bucket's rate, anything
    from 0 to 1, in the first null; else p ~ Beta(9, .5) where buckets fail together, and p ~ Beta(.3, .3)
    where tasks rise. In the last rows an agent always does the same: each task rises from 0.9 to 0.95, but
    one of 19 breaks, so that tasks like these do not change on average.
    """
    runs = max(FEW, round(RUNS * scale)) // PARTS
    for kind in (*NULLS, *CHANGES):
        for name in SHAPES:
            parts = in_parallel(verdicts, [(kind, name, runs, seed + at) for at in range(PARTS)])
            counts = Counts(*map(sum, zip(*parts, strict=True)))
            verdicts_of_any = max(1, counts.verdicts)
            any_note = f"any note {counts.any_note / verdicts_of_any:.3f} of {counts.verdicts} verdicts"
            if kind in NULLS:
                false = counts.like_these if kind == NULLS[0] else counts.verdicts
                one_bucket = f"one bucket {counts.one_bucket / verdicts_of_any:.3f}"
                note = f"{one_bucket}, {any_note}"
                yield share_row(f"{kind}, {name}: verdict", false, runs * PARTS, "<=", 1.0, note)
            else:
                what = f"{kind}, {name}: one bucket accounts for it"
                yield share_row(what, counts.one_bucket, verdicts_of_any, "<=", 0.05, any_note)
    sizes = list(BUCKETS)
    for tasks, (better, held) in zip(
        sizes, in_parallel(offset_rises, [(tasks, runs * PARTS, seed) for tasks in sizes]), strict=True
    ):
        note = f"interval holds {held / runs / PARTS:.3f}"
        what = f"all rise by 0.05, 1 of 19 breaks, {tasks} x1: tasks like these better"
        yield share_row(what, better, runs * PARTS, "<=", 1.0, note)


def offset_rises(tasks: int, runs: int, seed: int) -> tuple[int, int]:
    """Count false verdicts on tasks like these, and intervals that hold 0."""
    random = Random(f"offset rises {tasks} {seed}")
    better = held = 0
    for _ in range(runs):
        scores = [([0.9], [0.95 if random.random() < 18 / 19 else 0.0]) for _ in range(tasks)]
        suite = judged({"": scores}).suite
        assert suite.interval is not None
        better += direction(suite) == 1 and not suite.of_these_tasks
        held += suite.interval.low <= 0 <= suite.interval.high
    return better, held


def verdicts(kind: str, name: str, runs: int, seed: int) -> Counts:
    """Count verdicts on a suite, and those with a note."""
    random = Random(f"whole buckets {kind} {name} {seed}")
    shape, seen = SHAPES[name], []
    for _ in range(runs):
        before, after = _suites(kind, shape, random)
        suite = shape.judge(before, after, random, MODELS["quarters"]).suite
        is_verdict, note = direction(suite) != 0, share_text(suite)
        like_these = is_verdict and not suite.of_these_tasks
        seen.append(Counts(is_verdict, like_these, note.startswith("one bucket"), bool(note)))
    return Counts(*map(sum, zip(*seen, strict=True)))


def _suites(kind: str, shape: Shape, random: Random) -> tuple[Suite, Suite]:
    """Give tasks before and after, bucket by bucket."""
    if kind in CHANGES:
        before = MODELS["pass/fail, p ~ Beta(.3, .3)"].suite(shape.tasks, random)
        return before, diffuse(before, RISE) if kind == CHANGES[0] else focused(before, RISE, random)
    old: list[Task] = []
    new: list[Task] = []
    for size in shape.buckets:
        if kind == NULLS[0]:
            rate = random.random()
            old += [pass_fail(rate)] * size
            moved = random.random() if random.random() < NEW_RATES else rate
            new += [pass_fail(moved)] * size
            continue
        tasks = MODELS["pass/fail, p ~ Beta(9, .5)"].suite(size, random)
        for side in (old, new):
            side += [pass_fail(0.0)] * size if random.random() < FAIL_TOGETHER else tasks
    return old, new

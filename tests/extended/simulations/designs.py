"""How often anything is called better or worse where nothing, or nothing on average, has changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from pytest_agenteval.compare.verdict import Change, SuiteScoreChange
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row, worst_rows
from tests.extended.simulations.score_model import MODELS
from tests.extended.simulations.shapes import MANY_SMALL, SEVEN_LARGE, TOLERANCE, Shape

RUNS, FEW = 2_000, 60
SUITE, ANYTHING = 0.025, 0.05

BUCKETS = {8: (3, 3, 2), 15: (5, 4, 3, 3), 41: MANY_SMALL, 91: SEVEN_LARGE, 150: (15,) * 10}
"""How many tasks each bucket has, by the number of all tasks."""

REPETITIONS = {
    8: ((3, 3), (10, 1)),
    15: ((3, 2), (1, 3), (10, 1)),
    41: ((1, 1), (3, 3), (5, 1), (1, 5), (3, 6)),
    91: ((1, 1), (5, 1), (9, 3)),
    150: ((3, 1),),
}
DESIGNS = [Shape(BUCKETS[tasks], old, new) for tasks, each in REPETITIONS.items() for old, new in each]
PARTIAL = [
    Shape(MANY_SMALL, 3, 3, missing=0.15),
    Shape(MANY_SMALL, 3, 3, errored=0.1),
    Shape(BUCKETS[15], 5, 1, errored=0.1),
]
SMALL = [shape for shape in DESIGNS if shape.tasks * max(shape.old, shape.new) <= 45]
"""Designs for continuous scores, whose tests take ten times as long in larger ones."""

Null: TypeAlias = Literal["nothing changed", "tasks move"]

CELLS: Sequence[tuple[Null, str, Sequence[Shape]]] = (
    ("nothing changed", "pass/fail, p ~ Beta(.3, .3)", (*DESIGNS, *PARTIAL)),
    ("nothing changed", "pass/fail, all p = .95", (*DESIGNS, *PARTIAL)),
    ("nothing changed", "pass/fail, all p = .98", DESIGNS),
    ("nothing changed", "pass/fail, p ~ Beta(9, .5)", DESIGNS),
    ("nothing changed", "quarters", (*DESIGNS, *PARTIAL)),
    ("nothing changed", "continuous", SMALL),
    ("tasks move", "pass/fail, p ~ Beta(.3, .3)", (*DESIGNS, *PARTIAL)),
    ("tasks move", "pass/fail, p ~ Beta(9, .5)", DESIGNS),
    ("tasks move", "quarters", (*DESIGNS, *PARTIAL)),
    ("tasks move", "continuous", SMALL),
    ("tasks move", "always the same", DESIGNS),
)


class Counts(NamedTuple):
    """Of how many comparisons the suite has a verdict, one on tasks like these, or anything has one.

    ``contradictions`` are verdicts that their intervals deny, or the other way round.
    """

    suite: int
    like_these: int
    anything: int
    contradictions: int


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the worst design of each score model: verdicts of a suite, and of a suite or any of its buckets.

    Where nothing changed, any verdict is false. Where a change draws 3 tasks of 10 anew, one on tasks like
    these is; one on these tasks is not, for they did move. The note names the design and gives the mean of
    all; a design beyond the goal has a row of its own.
    """
    runs = max(FEW, round(RUNS * scale))
    contradictions = comparisons = 0
    for null, model, shapes in CELLS:
        cells = [(null, model, shape, runs, seed) for shape in shapes]
        counts = dict(zip(map(str, shapes), in_parallel(false_verdicts, cells), strict=True))
        contradictions += sum(each.contradictions for each in counts.values())
        comparisons += runs * len(shapes)
        if null == "nothing changed":
            suites = {shape: each.suite for shape, each in counts.items()}
            yield from worst_rows(f"{null}, {model}: a suite", suites, runs, "<=", SUITE)
            anything = {shape: each.anything for shape, each in counts.items()}
            yield from worst_rows(f"{null}, {model}: anything", anything, runs, "<=", ANYTHING)
        else:
            like_these = {shape: each.like_these for shape, each in counts.items()}
            yield from worst_rows(f"{null}, {model}: tasks like these", like_these, runs, "<=", SUITE)
    note = f"of {comparisons} comparisons"
    yield Row("verdicts that contradict their interval", contradictions, "<=", 0, note=note)


def false_verdicts(null: Null, model: str, shape: Shape, runs: int, seed: int) -> Counts:
    """Count comparisons with verdicts."""
    random = Random(f"false verdicts {null} {model} {shape} {seed}")
    scores = MODELS[model]
    seen = []
    for _ in range(runs):
        before = scores.suite(shape.tasks, random)
        after = before if null == "nothing changed" else scores.drawn_anew(before, random)
        seen.append(_seen(shape.judge(before, after, random, scores)))
    return Counts(*map(sum, zip(*seen, strict=True)))


def _seen(change: SuiteScoreChange) -> Counts:
    directions = [direction(each) for each in (change.suite, *change.buckets)]
    return Counts(
        suite=directions[0] != 0,
        like_these=directions[0] != 0 and not change.suite.of_these_tasks,
        anything=any(directions),
        contradictions=contradicts(change.suite),
    )


def direction(change: Change) -> int:
    """Give 1 for better, -1 for worse, 0 for neither."""
    return {"better": 1, "worse": -1}.get(change.verdict, 0)


def contradicts(change: Change) -> bool:
    """Whether the verdict on tasks like these and the interval beside it deny each other."""
    interval = change.interval
    if interval is None:
        return False
    verdict = change.like_these if change.of_these_tasks else change.verdict
    if verdict == "not worse" and interval.low <= -TOLERANCE:
        return True
    return (interval.low > 0, interval.high < 0) != (verdict == "better", verdict == "worse")

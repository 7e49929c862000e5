"""How often a change that is there is called by its name."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from pytest_agenteval.compare.findings import difference, suite_findings
from pytest_agenteval.scoring.exact_tests import sign_flip_test
from tests.simulations.parallel import in_parallel
from tests.simulations.rows import Row, share_row
from tests.simulations.score_model import compared, diffuse, drawn_suite, focused
from tests.simulations.shapes import THRICE

LEVEL, RISE, RUNS, PARTS = 0.025, 0.2, 10_000, 8
GOALS = (("diffuse", 0.92), ("focused", 0.84))
BUCKET_GOAL = 0.45


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the share of rises by 0.2 that are found: of 30 tasks x 3, and of 9 x 3 alone among 41 tasks.

    Diffuse: every miss is mended with the same chance; focused: some tasks become perfect. The goals are the
    project's own.
    """
    runs = max(20, round(RUNS * scale / PARTS))
    for effect, goal in GOALS:
        hits = in_parallel(suites_found, [(effect, 30, 3, RISE, runs, seed + at) for at in range(PARTS)])
        yield share_row(f"suite, 30x3, +.2 {effect}", sum(hits), runs * PARTS, ">=", goal)
    for effect, _ in GOALS:
        hits = in_parallel(buckets_found, [(effect, runs, seed + at) for at in range(PARTS)])
        what = f"bucket of 9x3, +.2 {effect}, alone among {THRICE}"
        yield share_row(what, sum(hits), runs * PARTS, ">=", BUCKET_GOAL)


def suites_found(effect: str, tasks: int, repetitions: int, rise: float, runs: int, seed: int) -> int:
    """Count rises of a whole suite that the sign-flip test finds."""
    random = Random(f"power {effect} {tasks} {repetitions} {rise} {seed}")
    hits = 0
    for _ in range(runs):
        before = drawn_suite(tasks, random)
        after = diffuse(before, rise) if effect == "diffuse" else focused(before, rise, random)
        pairs = compared(before, after, repetitions, repetitions, random)
        hits += sign_flip_test(map(difference, pairs)).p <= LEVEL and sum(map(difference, pairs)) > 0
    return hits


def buckets_found(effect: str, runs: int, seed: int) -> int:
    """Count rises of the largest bucket that are found in it, by its share of the level."""
    random = Random(f"power of a bucket {effect} {seed}")
    size, hits = THRICE.buckets[0], 0
    for _ in range(runs):
        before = drawn_suite(THRICE.tasks, random)
        bucket = before[:size]
        risen = diffuse(bucket, RISE) if effect == "diffuse" else focused(bucket, RISE, random)
        findings = suite_findings(THRICE.compare(before, [*risen, *before[size:]], random))
        hits += findings.buckets["0"].direction == 1
    return hits

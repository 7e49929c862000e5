"""How often a change that is there is called by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

from pytest_agenteval.compare.verdict import suite_findings
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row, share_row
from tests.extended.simulations.score_model import MODELS, Suite, compared, diffuse, focused
from tests.extended.simulations.shapes import THRICE

RUNS, PARTS, FEW = 4_000, 4, 80

RISES: Mapping[str, str] = {"diffuse": "all a little", "focused": "a few wholly"}

PASS_FAIL, QUARTERS = "pass/fail, p ~ Beta(.3, .3)", "quarters"

GOALS: Mapping[tuple[str, int, int, float], tuple[float, float]] = {
    (PASS_FAIL, 15, 3, 0.2): (0.45, 0.45),
    (PASS_FAIL, 30, 3, 0.2): (0.85, 0.80),
    (PASS_FAIL, 41, 3, 0.1): (0.0, 0.0),
    (PASS_FAIL, 91, 1, 0.1): (0.0, 0.0),
    (QUARTERS, 15, 3, 0.2): (0.0, 0.0),
    (QUARTERS, 30, 3, 0.2): (0.92, 0.84),
    (QUARTERS, 41, 3, 0.1): (0.0, 0.0),
    (QUARTERS, 91, 1, 0.1): (0.0, 0.0),
    ("continuous", 30, 3, 0.2): (0.0, 0.0),
}
"""Score model, tasks, repetitions and rise; how often it is to be found, diffuse and focused. 0: no goal."""

BUCKET_GOALS = {QUARTERS: 0.45, PASS_FAIL: 0.0}
BUCKET_RISE = 0.2


class Found(NamedTuple):
    """How often these tasks, and tasks like these, were called better."""

    these: int
    like_these: int


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the share of rises found in these tasks; the note gives that of tasks like these.

    Diffuse: every miss is mended with the same chance; focused: some tasks become perfect. Goals are the
    project's own; a goal of 0 is none. Beside it, of one bucket of 9 tasks alone among 41.
    """
    runs = max(FEW, round(RUNS * scale)) // PARTS
    for (model, tasks, repetitions, rise), goals in GOALS.items():
        for effect, goal in zip(RISES, goals, strict=True):
            cell = (model, effect, tasks, repetitions, rise, runs)
            parts = in_parallel(suites_found, [(*cell, seed + at) for at in range(PARTS)])
            found = Found(*map(sum, zip(*parts, strict=True)))
            note = f"tasks like these {found.like_these / runs / PARTS:.3f}"
            what = f"{model}, {tasks} x{repetitions}, {rise:+g}, {RISES[effect]}: found"
            yield share_row(what, found.these, runs * PARTS, ">=", goal, note)
    for model, goal in BUCKET_GOALS.items():
        for effect in RISES:
            hits = in_parallel(buckets_found, [(model, effect, runs, seed + at) for at in range(PARTS)])
            what = f"{model}, one bucket of 9 x3 of 41, +0.2, {RISES[effect]}: found"
            yield share_row(what, sum(hits), runs * PARTS, ">=", goal)


def suites_found(
    model: str, effect: str, tasks: int, repetitions: int, rise: float, runs: int, seed: int
) -> Found:
    """Count rises of a whole suite that are found."""
    random = Random(f"power {model} {effect} {tasks} {repetitions} {rise} {seed}")
    scores = MODELS[model]
    these = like_these = 0
    for _ in range(runs):
        before = scores.suite(tasks, random)
        after = _risen(before, effect, rise, random)
        pairs = scores.jittered(compared(before, after, repetitions, repetitions, random), random)
        findings = suite_findings({"": pairs})
        these += findings.these.direction == 1
        like_these += findings.like_these.direction == 1
    return Found(these, like_these)


def buckets_found(model: str, effect: str, runs: int, seed: int) -> int:
    """Count rises of the largest bucket that are found in it, by its share of the level."""
    random = Random(f"power of a bucket {model} {effect} {seed}")
    size, hits, scores = THRICE.buckets[0], 0, MODELS[model]
    for _ in range(runs):
        before = scores.suite(THRICE.tasks, random)
        risen = _risen(before[:size], effect, BUCKET_RISE, random)
        findings = suite_findings(THRICE.compare(before, [*risen, *before[size:]], random, scores))
        hits += findings.buckets["0"].direction == 1
    return hits


def _risen(suite: Suite, effect: str, rise: float, random: Random) -> Suite:
    return diffuse(suite, rise) if effect == "diffuse" else focused(suite, rise, random)

"""How often a report of several sides names a winner where all are equal, and how often it finds the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from pytest_agenteval.reports.sides import sides_of
from pytest_agenteval.reports.sides_report import verdict_sentences
from pytest_agenteval.store.run_folder import RunHeader
from pytest_agenteval.store.run_reader import Run
from tests.compare.samples import entry
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row, share_row, worst_rows
from tests.extended.simulations.score_model import MODELS, Suite, diffuse, trials
from tests.extended.simulations.shapes import FOUR_EVEN, MANY_SMALL, SEVEN_LARGE

RUNS, PARTS, FEW = 400, 2, 40
SIDES = (3, 6)
ANY_WINNER = 0.05
RISE = 0.2

PASS_FAIL = "pass/fail, p ~ Beta(.3, .3)"
CELLS: Sequence[tuple[str, Sequence[int], int]] = (
    (PASS_FAIL, FOUR_EVEN, 3),
    (PASS_FAIL, MANY_SMALL, 3),
    (PASS_FAIL, (6,), 5),
    ("pass/fail, all p = .95", MANY_SMALL, 1),
    ("quarters", FOUR_EVEN, 3),
    ("quarters", SEVEN_LARGE, 1),
)
"""Score model, tasks of each bucket, and repetitions."""

POWER = (PASS_FAIL, (10, 10, 10), 3), ("quarters", (10, 10, 10), 3)


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the worst design for 3 and 6 equal sides, and how often the best of several sides beats the first.

    A winner is any side that beats another, in a suite or a bucket. The goal of 5 % is the project's own.
    What is found has no goal; its note says how often two sides alone find it, with the same trials.
    """
    runs = max(FEW, round(RUNS * scale)) // PARTS
    for sides in SIDES:
        named = {}
        for model, buckets, repetitions in CELLS:
            cells = [(model, buckets, repetitions, sides, runs, seed + at) for at in range(PARTS)]
            cell = f"{model}, {sum(buckets)} tasks in {len(buckets)} buckets x{repetitions}"
            named[cell] = sum(in_parallel(winners_named, cells))
        yield from worst_rows(f"{sides} equal sides: any winner", named, runs * PARTS, "<=", ANY_WINNER)
    for model, buckets, repetitions in POWER:
        found = {}
        for sides in (2, *SIDES):
            cells = [(model, buckets, repetitions, sides, runs, seed + at) for at in range(PARTS)]
            found[sides] = sum(in_parallel(best_found, cells))
        for sides in SIDES:
            what = (
                f"{model}, {sum(buckets)} x{repetitions}, the last of {sides} is {RISE:+g}: beats the first"
            )
            note = f"of two {found[2] / runs / PARTS:.3f}"
            yield share_row(what, found[sides], runs * PARTS, ">=", 0.0, note)


def winners_named(
    model: str, buckets: Sequence[int], repetitions: int, sides: int, runs: int, seed: int
) -> int:
    """Count reports that name a winner among sides that are equal."""
    random, hits = Random(f"sides {model} {buckets} {repetitions} {sides} {seed}"), 0
    for _ in range(runs):
        suite = MODELS[model].suite(sum(buckets), random)
        hits += any(" beats " in text for text in _sentences([suite] * sides, buckets, repetitions, random))
    return hits


def best_found(model: str, buckets: Sequence[int], repetitions: int, sides: int, runs: int, seed: int) -> int:
    """Count reports in which the last side, the only one that is better, beats the first one."""
    random, hits = Random(f"best of sides {model} {buckets} {repetitions} {seed}"), 0
    for _ in range(runs):
        suite = MODELS[model].suite(sum(buckets), random)
        suites = [*[suite] * (sides - 1), diffuse(suite, RISE)]
        last = f"m{sides - 1} beats "
        # The losers are named before what is known of them.
        hits += any(
            text.startswith(last) and "m0" in text.partition(" (")[0]
            for text in _sentences(suites, buckets, repetitions, random)
        )
    return hits


def _sentences(
    suites: Sequence[Suite], buckets: Sequence[int], repetitions: int, random: Random
) -> list[str]:
    """Try each suite with a model of its own, and give what the report of that run says."""
    names = [f"{bucket}/{bucket}-{at}" for bucket, tasks in enumerate(buckets) for at in range(tasks)]
    entries = [
        entry(name, number, score, model=f"m{side}")
        for side, suite in enumerate(suites)
        for name, task in zip(names, suite, strict=True)
        for number, score in enumerate(trials(task, repetitions, random), 1)
    ]
    return verdict_sentences(sides_of([Run(Path("run"), RunHeader(""), (), tuple(entries))]))

"""How often a run in which nothing changed misses a floor, or a promoted task, beside what is predicted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from random import Random
from statistics import fmean, stdev
from typing import NamedTuple

from pytest_agenteval.compare.scoring.aggregates import pass_hat_k
from pytest_agenteval.compare.scoring.power import NullMean, null_mean, null_pass_hat_k, pass_rates
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row
from tests.extended.simulations.score_model import SCORES, Task, drawn_suite, true_mean

RUNS, NEW_RUNS = 600, 5
"""Simulated suites of each cell at scale 1, and runs in which nothing changed of each suite."""

MARGINS = (0.02, 0.05)
"""How far floors are below the stored mean, or below the truth."""

TASKS, REPETITIONS = (15, 41, 91), (1, 3)
STORED = {3: "1x3 or 3x1", 15: "5x3"}
"""Stored trials of each task: as these runs with so many repetitions make them."""

OFF, PROMOTED_OFF, BUCKET_OFF, TOO_OFTEN = 0.06, 0.08, 0.2, 0.025
"""How far a predicted chance may be off in the worst cell, and how often a floor of 1 in 100 may be missed.

Of a bucket that has to pass as a whole, luck may have chosen the moment, as docs/guides/gates.md says.
"""


def _rates(rate: Callable[[Random], float]) -> Callable[[int, Random], list[Task]]:
    def drawn(tasks: int, random: Random) -> list[Task]:
        rates = [rate(random) for _ in range(tasks)]
        return [(1 - rate, 0.0, 0.0, 0.0, rate) for rate in rates]

    return drawn


MODELS: Mapping[str, Callable[[int, Random], list[Task]]] = {
    "pass/fail, p ~ Beta(.3, .3)": _rates(lambda random: random.betavariate(0.3, 0.3)),
    "pass/fail, all p = .95": _rates(lambda _: 0.95),
    "pass/fail, p ~ Beta(9, .5)": _rates(lambda random: random.betavariate(9, 0.5)),
    "quarters": drawn_suite,
}
PASS_FAIL = [model for model in MODELS if model != "quarters"]


class Beside(NamedTuple):
    """A predicted chance beside the share of runs that it is of, over many suites."""

    predicted: float
    real: float
    error: float

    @property
    def off(self) -> float:
        return self.predicted - self.real


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give how far predicted chances are off, and how often floors of 1 in 100 are missed: the worst cells.

    A cell is a score model, a number of tasks, of stored trials of each and of new ones. Floors are set below
    the stored mean, as users set them. For those below the truth, which nobody knows, the chance may be too
    high: with few stored trials the stored mean may be the lower one of the two.
    """
    runs = max(20, round(RUNS * scale))
    for model, stored in product(MODELS, STORED):
        cells = list(product(TASKS, REPETITIONS))
        found = in_parallel(means, [(model, tasks, stored, new, runs, seed) for tasks, new in cells])
        named = [
            (cell, each)
            for (tasks, new), each in zip(cells, found, strict=True)
            for cell, each in ((f"{tasks} tasks, new x{new}", each),)
        ]
        what = f"{model}, {STORED[stored]}"
        below = [
            (f"{cell}, {margin}", each.below_stored[margin]) for cell, each in named for margin in MARGINS
        ]
        yield _worst(f"{what}: predicted chance off", below)
        cell, worst = max(named, key=lambda each: each[1].below_safe)
        error = math.sqrt(TOO_OFTEN / runs)
        yield Row(f"{what}: below a floor of 1 in 100", worst.below_safe, "<=", TOO_OFTEN, error, cell)
        for tasks, new in ((15, 1), (41, 3)):
            for margin, each in found[cells.index((tasks, new))].below_truth.items():
                name = f"{what}: chance too low, {tasks}x{new}, {margin} below the truth"
                yield Row(name, -each.off, "<=", OFF, each.error, _beside_text(each))
    yield from _passes(runs, seed)


def _worst(what: str, cells: Sequence[tuple[str, Beside]], goal: float = OFF) -> Row:
    cell, worst = max(cells, key=lambda each: abs(each[1].off))
    return Row(what, abs(worst.off), "<=", goal, worst.error, f"{cell}: {_beside_text(worst)}")


def _beside_text(each: Beside) -> str:
    return f"predicted {each.predicted:.3f}, real {each.real:.3f}"


class Means(NamedTuple):
    """What becomes of floors below the stored mean, below the truth, and of one that 1 in 100 runs miss."""

    below_stored: dict[float, Beside]
    below_truth: dict[float, Beside]
    below_safe: float


def means(model: str, tasks: int, stored: int, new: int, suites: int, seed: int) -> Means:
    """Store trials of suites, predict, and try the same suites again."""
    random = Random(f"means {model} {tasks} {stored} {new} {seed}")
    below: dict[tuple[str, float], list[tuple[float, float]]] = {}
    safe: list[float] = []
    for _ in range(suites):
        suite = MODELS[model](tasks, random)
        trials = [random.choices(SCORES, task, k=stored) for task in suite]
        null = null_mean(trials, new)
        assert null is not None
        again = [fmean(_mean(task, new, random) for task in suite) for _ in range(NEW_RUNS)]
        for of, mean in (("stored", fmean(map(fmean, trials))), ("truth", fmean(map(true_mean, suite)))):
            for margin in MARGINS:
                floor = mean - margin
                below.setdefault((of, margin), []).append((null.chance_below(floor), _share(again, floor)))
        safe.append(_share(again, null.highest_floor()))
    stored_margins, true_margins = (
        {margin: _beside(below[of, margin]) for margin in MARGINS} for of in ("stored", "truth")
    )
    return Means(stored_margins, true_margins, fmean(safe))


def _mean(task: Task, repetitions: int, random: Random) -> float:
    return fmean(random.choices(SCORES, task, k=repetitions))


def _share(means: Sequence[float], floor: float) -> float:
    return fmean(mean < floor - 1e-9 for mean in means)


def _beside(chances: Sequence[tuple[float, float]]) -> Beside:
    off = [predicted - real for predicted, real in chances]
    predicted, real = (fmean(each) for each in zip(*chances, strict=True))
    return Beside(predicted, real, stdev(off) / math.sqrt(len(off)))


def _passes(suites: int, seed: int) -> Iterator[Row]:
    """Give the rows of pass^3, and of promotions: each task that passed in 5 runs, and whole buckets."""
    for model in PASS_FAIL:
        shapes = list(product(TASKS, STORED))
        found = in_parallel(all_of_three, [(model, tasks, stored, suites, seed) for tasks, stored in shapes])
        named = [
            (f"{tasks} tasks, {STORED[stored]}", each)
            for (tasks, stored), each in zip(shapes, found, strict=True)
        ]
        yield _worst(f"{model}: predicted chance of pass^3 off", [(cell, each[0]) for cell, each in named])
        cell, worst = max(named, key=lambda each: each[1][1])
        error = math.sqrt(TOO_OFTEN / suites)
        yield Row(f"{model}: pass^3 below a floor of 1 in 100", worst[1], "<=", TOO_OFTEN, error, cell)
        for bucket, goal in ((False, PROMOTED_OFF), (True, BUCKET_OFF)):
            cases = list(product((15, 41), REPETITIONS))
            risks = in_parallel(promotions, [(model, *case, bucket, suites, seed) for case in cases])
            cells = [
                (f"{tasks} tasks, 5x{new}", risk) for (tasks, new), risk in zip(cases, risks, strict=True)
            ]
            what = (
                f"{model}: predicted miss of {'a promoted bucket of 4' if bucket else 'promoted tasks'} off"
            )
            yield _worst(what, cells, goal)

    whole = promotions(PASS_FAIL[1], 4, 1, True, suites, seed)
    what = f"{PASS_FAIL[1]}: predicted miss of a promoted suite of 4 off"
    yield _worst(what, [("4 tasks, 5x1", whole)], BUCKET_OFF)


def all_of_three(model: str, tasks: int, stored: int, suites: int, seed: int) -> tuple[Beside, float]:
    """Predict pass^3 of runs with 3 repetitions, below a floor 0.05 below the stored one, and a safe one."""
    random = Random(f"pass^3 {model} {tasks} {stored} {seed}")
    chances: list[tuple[float, float]] = []
    safe: list[float] = []
    for _ in range(suites):
        rates = [task[-1] for task in MODELS[model](tasks, random)]
        outcomes = [[random.random() < rate for _ in range(stored)] for rate in rates]
        null = null_pass_hat_k(outcomes, 3)
        assert isinstance(null, NullMean)
        floor = fmean(pass_hat_k(stored, sum(task), 3) for task in outcomes) - 0.05
        again = [fmean(random.random() < rate**3 for rate in rates) for _ in range(NEW_RUNS)]
        chances.append((null.chance_below(floor), _share(again, floor)))
        safe.append(_share(again, null.highest_floor()))
    return _beside(chances), fmean(safe)


def promotions(model: str, tasks: int, new: int, bucket: bool, suites: int, seed: int) -> Beside:
    """Promote what passed in 5 runs: the first 4 tasks if all of them did, or every task that did."""
    random = Random(f"promotions {model} {tasks} {new} {bucket} {seed}")
    chances: list[tuple[float, float]] = []
    while len(chances) < suites:
        rates = [task[-1] for task in MODELS[model](tasks, random)]
        outcomes = [[random.random() < rate for _ in range(5 * new)] for rate in rates]
        passed = [at for at, task in enumerate(outcomes[: 4 if bucket else tasks]) if all(task)]
        if len(passed) >= (4 if bucket else 1):
            known = pass_rates(outcomes)
            assert known is not None
            predicted = known.chance_of_a_miss([(5 * new, 5 * new)] * len(passed), new)
            chances.append((predicted, 1 - math.prod(rates[at] ** new for at in passed)))
    return _beside(chances)

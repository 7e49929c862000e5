"""How often the printed interval of a mean over tasks holds the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import comb
from random import Random

from pytest_agenteval.compare.scoring.intervals import beta_interval
from tests.extended.simulations.rows import Row, share_row

Draw = Callable[[Random], float]

REPETITIONS, CORRELATIONS = (1, 2, 3, 5), (0.2, 0.8)
RUNS = {5: 40_000, 8: 40_000, 15: 10_000, 25: 10_000, 41: 10_000, 91: 6_000}
"""Simulated suites in each cell at scale 1: more where the truth lies close to the goal (.9037 of .90)."""
RATES = [rate / 100 for rate in range(2, 99)]


def _lattice(*weights: float) -> tuple[Draw, float]:
    """Give equally spaced scores from 0 to 1 with these weights, and their mean."""
    scores = [step / (len(weights) - 1) for step in range(len(weights))]
    mean = sum(score * weight for score, weight in zip(scores, weights, strict=True)) / sum(weights)
    return lambda random: random.choices(scores, weights)[0], mean


def _beta(a: float, b: float) -> tuple[Draw, float]:
    return lambda random: random.betavariate(a, b), a / (a + b)


SCORES: Mapping[str, tuple[Draw, float]] = {
    "Beta(2, 2)": _beta(2, 2),
    "Beta(8, 2)": _beta(8, 2),
    "0, 1/2, 1": _lattice(1, 1, 1),
    "quarters, skewed": _lattice(1, 1, 2, 4, 12),
    "Bernoulli .02": _lattice(0.98, 0.02),
    "Bernoulli .05": _lattice(0.95, 0.05),
    "Bernoulli .5": _lattice(0.5, 0.5),
    "Bernoulli .95": _lattice(0.05, 0.95),
    "Bernoulli .98": _lattice(0.02, 0.98),
}
"""What a trial's score is drawn from, and its mean: the truth over tasks like these."""


def task_means(
    draw: Draw, tasks: int, repetitions: int, correlation: float, random: Random
) -> Sequence[float]:
    """Give each task's mean over its repetitions.

    A trial shows its task's own score with probability sqrt(correlation), else one drawn anew: two trials of
    a task then correlate by ``correlation``, and every trial has the distribution of ``draw``.
    """
    loyal = correlation**0.5
    means = []
    for _ in range(tasks):
        own = draw(random)
        trials = (own if random.random() < loyal else draw(random) for _ in range(repetitions))
        means.append(sum(trials) / repetitions)
    return means


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the lowest coverage of a cell for each number of tasks, by the goals of the printed interval.

    A cell is a number of tasks and of repetitions, a distribution of scores and a correlation within tasks.
    Of pass/fail tasks tried once coverage goes up and down with the share that passes, as of every short
    interval of a share (Brown, Cai and DasGupta 2001): the lowest is counted out, and no fewer tasks mend it.
    """
    for tasks, full in RUNS.items():
        runs = max(20, round(full * scale))
        cells = [_cell(tasks, *cell, runs, seed) for cell in product(REPETITIONS, SCORES, CORRELATIONS)]
        covered, _, name = min(cells)
        share = sum(held for held, _, _ in cells) / len(cells) / runs
        note = f"all cells {share:.3f}, mean width {sum(cell[1] for cell in cells) / len(cells):.3f}"
        goal = 0.93 if tasks >= 15 else 0.91 if tasks > 5 else 0.90
        yield share_row(f"coverage, {tasks} tasks, lowest: {name}", covered, runs, ">=", goal, note)
        lowest, rate = min((_counted_coverage(tasks, rate), rate) for rate in RATES)
        mean = sum(_counted_coverage(tasks, rate) for rate in RATES) / len(RATES)
        what = f"coverage, {tasks} tasks, pass/fail x1, lowest: {rate:.2f}"
        yield Row(what, lowest, ">=", 0.87, note=f"all rates {mean:.3f}")


def _counted_coverage(tasks: int, rate: float) -> float:
    """Give the chance that the interval of pass/fail tasks, tried once, holds their true rate."""
    held = 0.0
    for passed in range(tasks + 1):
        interval = beta_interval([1.0] * passed + [0.0] * (tasks - passed))
        assert interval is not None
        if interval.low <= rate <= interval.high:
            held += comb(tasks, passed) * rate**passed * (1 - rate) ** (tasks - passed)
    return held


def _cell(
    tasks: int, repetitions: int, scores: str, correlation: float, runs: int, seed: int
) -> tuple[int, float, str]:
    """Give how often the truth was held, the mean width, and the cell's name."""
    random = Random(f"{seed} {tasks} {repetitions} {scores} {correlation}")
    draw, truth = SCORES[scores]
    held, width = 0, 0.0
    for _ in range(runs):
        interval = beta_interval(task_means(draw, tasks, repetitions, correlation, random))
        assert interval is not None
        held += interval.low <= truth <= interval.high
        width += interval.high - interval.low
    return held, width / runs, f"{scores} x{repetitions}, r {correlation}"

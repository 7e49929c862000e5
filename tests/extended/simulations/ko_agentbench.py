"""How often the intervals of the Korean benchmark's levels and composite hold the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from pytest_agenteval.benchmarks.ko_agentbench.scorecard import (
    LEVEL_METRICS,
    WEIGHTS,
    TrialMetric,
    composite,
    level_means,
    level_shares,
)
from tests.extended.simulations.rows import Row, share_row

Task = tuple[float | None, ...]
"""What each metric of its level says of a task."""
Draw = Callable[[Random, int], Task]
"""Draws a task of a level with so many metrics."""

SIZES = {"L1": 11, "L2": 15, "L3": 10, "L5": 20, "L6": 15, "L7": 10}
RUNS = 10_000


def _same(draw: Callable[[Random], float]) -> Draw:
    """Give tasks of which every metric says the same: the fewest figures that a level can rest on."""

    def task(random: Random, metrics: int) -> Task:
        return (draw(random),) * metrics

    return task


def _passing(chance: float) -> Draw:
    return _same(lambda random: float(random.random() < chance))


def _patchy(random: Random, metrics: int) -> Task:
    """Give a task with a difficulty of its own; beyond the first, a metric is decided in 7 tasks of 10."""
    ease = random.betavariate(2, 1)
    said = [float(random.random() < ease) for _ in range(metrics)]
    return tuple(score if not at or random.random() < 0.7 else None for at, score in enumerate(said))


def _choosing(*weights: float) -> Draw:
    scores = [step / (len(weights) - 1) for step in range(len(weights))]
    return _same(lambda random: random.choices(scores, weights)[0])


def _everywhere(draw: Draw, mean: float) -> Mapping[str, tuple[Draw, float]]:
    return dict.fromkeys(SIZES, (draw, mean))


def _passing_in_each(*chances: float) -> Mapping[str, tuple[Draw, float]]:
    return {level: (_passing(chance), chance) for level, chance in zip(SIZES, chances, strict=True)}


AGENTS: Mapping[str, Mapping[str, tuple[Draw, float]]] = {
    **{f"passes {chance}": _everywhere(_passing(chance), chance) for chance in (0.02, 0.2, 0.5, 0.9, 0.95)},
    "passes .4 to .9": _passing_in_each(0.7, 0.9, 0.6, 0.4, 0.5, 0.8),
    "passes .03 or .97": _passing_in_each(0.97, 0.97, 0.97, 0.03, 0.03, 0.97),
    "quarters, skewed": _everywhere(_choosing(1, 1, 2, 4, 12), 65 / 80),
    "Beta(8, 2)": _everywhere(_same(lambda random: random.betavariate(8, 2)), 0.8),
    "some undecided": _everywhere(_patchy, 2 / 3),
    "like the published": {
        "L1": (_choosing(0, 1, 4, 3, 2), 0.65),
        "L2": (_passing(1), 1.0),
        "L3": (_choosing(3, 1, 2, 4), 17 / 30),
        "L5": (_choosing(5, 3, 4, 3, 1), 0.375),
        "L6": (_same(lambda _: 0.5), 0.5),
        "L7": (_choosing(0, 0, 1, 1, 8), 0.925),
    },
}
"""What an agent's tasks are drawn from in each level, and their mean."""


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give the coverage of the composite, and the lowest of a level, for agents of many kinds.

    The goals are those of any printed interval: 93 % where 15 tasks or more stand behind it, else 91 %.
    """
    runs = max(20, round(RUNS * scale))
    for name, agent in AGENTS.items():
        random = Random(f"{seed} {name}")
        truth = sum(share * agent[level][1] for level, share in level_shares(WEIGHTS).items())
        whole, width = 0, 0.0
        held = dict.fromkeys(SIZES, 0)
        for _ in range(runs):
            means = level_means(observed(agent, random))
            interval = composite(means).interval
            assert interval is not None
            whole += interval.low <= truth + 1e-9 and truth - 1e-9 <= interval.high
            width += interval.high - interval.low
            for level in SIZES:
                own = means[level].interval()
                # The very end of the scale is what the interval's end rounds to.
                held[level] += own is not None and own.low - 1e-3 <= agent[level][1] <= own.high + 1e-3
        yield share_row(f"ko composite, {name}", whole, runs, ">=", 0.93, f"mean width {width / runs:.3f}")
        fewest = min(held, key=lambda level: held[level])
        goal = 0.93 if SIZES[fewest] >= 15 else 0.91
        yield share_row(f"ko {fewest}, lowest of the levels, {name}", held[fewest], runs, ">=", goal)


def observed(agent: Mapping[str, tuple[Draw, float]], random: Random) -> Sequence[TrialMetric]:
    """Draw one trial for each of the benchmark's tasks."""
    return [
        TrialMetric(level, metric, task, score)
        for level, (draw, _) in agent.items()
        for task in range(SIZES[level])
        for metric, score in zip(LEVEL_METRICS[level], draw(random, len(LEVEL_METRICS[level])), strict=True)
    ]

"""The models of scores that comparisons are simulated with: tasks whose true scores, and changes, are known.

A task is the chances of its trials to score 0, 1/4, 1/2, 3/4 or 1: pass/fail tasks use the ends alone. In the
model that is called quarters scores are 0.675 on average. Two tasks of 5 are frozen: they score the same in
each trial. The others waver, mostly between the ends: a trial's score is beta-binomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeAlias

from pytest_agenteval.compare.scoring.exact_tests import PairedScores

SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
MEAN = 0.675
FROZEN, DRAWN_ANEW = 0.4, 0.3
LEVELS = (8 * MEAN, 8 * (1 - MEAN))
"""Beta parameters of the true means of the tasks that waver: they differ, by 0.16 as a rule."""
WITHIN = 0.7
"""Concentration of one task's trials about its mean; below 1 the ends are the likeliest."""

Task: TypeAlias = tuple[float, ...]
"""How likely each of the five scores is."""

Suite: TypeAlias = Sequence[Task]


def pass_fail(rate: float) -> Task:
    """Give a task that passes at this rate, and else scores 0."""
    return (1 - rate, 0.0, 0.0, 0.0, rate)


def quarters(random: Random) -> Task:
    """Draw a task that is frozen or wavers."""
    if random.random() < FROZEN:
        always = random.choices(range(5), _beta_binomial(MEAN))[0]
        return tuple(float(score == always) for score in range(5))
    return _beta_binomial(round(random.betavariate(*LEVELS), 2))


@cache
def _beta_binomial(mean: float) -> Task:
    """Give the chances of 0 to 4 quarters; they are highest at the ends."""
    mean = min(max(mean, 0.01), 0.99)
    high, low = mean * WITHIN, (1 - mean) * WITHIN

    def rising(start: float, steps: int) -> float:
        return math.prod(start + step for step in range(steps))

    return tuple(
        math.comb(4, quarters) * rising(high, quarters) * rising(low, 4 - quarters) / rising(WITHIN, 4)
        for quarters in range(5)
    )


@dataclass(frozen=True, slots=True)
class ScoreModel:
    """What tasks are drawn from: ``mean`` is their true mean before ``jitter`` makes scores continuous.

    A trial that scores s then scores anything from ``(1 - jitter) s`` to ``jitter`` above it, to two digits.
    """

    task: Callable[[Random], Task]
    mean: float
    jitter: float = 0.0

    def suite(self, tasks: int, random: Random) -> list[Task]:
        """Draw so many tasks."""
        return [self.task(random) for _ in range(tasks)]

    def drawn_anew(self, suite: Suite, random: Random) -> list[Task]:
        """Draw 3 tasks of 10 anew: a change that moves tasks, on average by nothing (the null ``hetero``)."""
        return [self.task(random) if random.random() < DRAWN_ANEW else task for task in suite]

    def jittered(self, pairs: Sequence[PairedScores], random: Random) -> Sequence[PairedScores]:
        """Make scores continuous, if the model says so."""
        if not self.jitter:
            return pairs
        return [(self._moved(old, random), self._moved(new, random)) for old, new in pairs]

    def _moved(self, scores: Sequence[float], random: Random) -> list[float]:
        return [round((1 - self.jitter) * score + self.jitter * random.random(), 2) for score in scores]


def _alike(task: Task) -> Callable[[Random], Task]:
    return lambda random: task


MODELS: Mapping[str, ScoreModel] = {
    "pass/fail, p ~ Beta(.3, .3)": ScoreModel(lambda random: pass_fail(random.betavariate(0.3, 0.3)), 0.5),
    "pass/fail, all p = .95": ScoreModel(_alike(pass_fail(0.95)), 0.95),
    "pass/fail, all p = .98": ScoreModel(_alike(pass_fail(0.98)), 0.98),
    "pass/fail, p ~ Beta(9, .5)": ScoreModel(lambda random: pass_fail(random.betavariate(9, 0.5)), 9 / 9.5),
    "quarters": ScoreModel(quarters, MEAN),
    "continuous": ScoreModel(quarters, MEAN, jitter=0.25),
    "always the same": ScoreModel(lambda random: pass_fail(float(random.random() < 0.7)), 0.7),
    "always passes": ScoreModel(_alike(pass_fail(1.0)), 1.0),
    "always .95 to 1": ScoreModel(_alike(pass_fail(1.0)), 1.0, jitter=0.05),
}


def drawn_suite(tasks: int, random: Random) -> list[Task]:
    """Draw tasks that score in quarters."""
    return MODELS["quarters"].suite(tasks, random)


def true_mean(task: Task) -> float:
    """Give the mean score of infinitely many trials."""
    return sum(score * chance for score, chance in zip(SCORES, task, strict=True))


def moved(suite: Suite, random: Random) -> list[Task]:
    """Draw 3 tasks of 10 anew, in quarters."""
    return MODELS["quarters"].drawn_anew(suite, random)


def diffuse(suite: Suite, rise: float) -> list[Task]:
    """Mend every miss with the same chance, so that the true mean rises by ``rise`` (or to 1)."""
    misses = sum(1 - true_mean(task) for task in suite)
    share = min(1.0, rise * len(suite) / misses) if misses else 0.0
    return [mended(task, share) for task in suite]


def focused(suite: Suite, rise: float, random: Random) -> list[Task]:
    """Make tasks perfect, one after the other in random order, until the true mean has risen by ``rise``."""
    left, after = rise * len(suite), list(suite)
    for at in random.sample(range(len(suite)), len(suite)):
        misses = 1 - true_mean(suite[at])
        share = min(1.0, left / misses) if misses > 0 else 0.0
        after[at] = mended(suite[at], share)
        left -= share * misses
    return after


def risen(suite: Suite, effect: str, share: float, random: Random) -> list[Task]:
    """Mend this share of what tasks like these miss: a little of all, or all of a few that are drawn.

    The tasks at hand then rise by more or less than tasks like these, by ``share`` of what those miss.
    """
    if effect == "diffuse":
        return [mended(task, share) for task in suite]
    return [mended(task, 1.0) if random.random() < share else task for task in suite]


def fallen(suite: Suite, effect: str, share: float, random: Random) -> list[Task]:
    """Spoil this share of what tasks like these score: a little of all, or all of a few that break."""
    if effect == "diffuse":
        return [spoilt(task, share) for task in suite]
    return [spoilt(task, 1.0) if random.random() < share else task for task in suite]


def mended(task: Task, share: float) -> Task:
    """Make a 1 of this share of what is none."""
    below = [chance * (1 - share) for chance in task[:-1]]
    return (*below, 1 - sum(below))


def spoilt(task: Task, share: float) -> Task:
    """Make a 0 of this share of what is none."""
    above = [chance * (1 - share) for chance in task[1:]]
    return (1 - sum(above), *above)


def trials(task: Task, repetitions: int, random: Random) -> list[float]:
    """Try a task."""
    return random.choices(SCORES, task, k=repetitions)


def compared(
    before: Suite, after: Suite, old_repetitions: int, new_repetitions: int, random: Random
) -> list[PairedScores]:
    """Try every task so many times before and after."""
    return [
        (trials(old, old_repetitions, random), trials(new, new_repetitions, random))
        for old, new in zip(before, after, strict=True)
    ]

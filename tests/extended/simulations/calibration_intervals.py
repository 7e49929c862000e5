"""How often the printed intervals of a calibration hold the truth: of judges, and of judges asked again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean

from pytest_agenteval.compare.scoring.agreement import (
    Pair,
    agreement,
    category_pairs,
    judge_noise,
    krippendorff_alpha,
    weighted_kappa,
)
from pytest_agenteval.compare.scoring.intervals import BootstrapEstimate, BootstrapSettings
from tests.extended.simulations.rows import Row, share_row

LABELS = (8, 15, 40)
RUNS, FEWEST_RUNS, DRAWS, MANY = 300, 10, 200, 20_000
"""Calibrations of each cell at scale 1, draws of each interval, and examples that stand for the truth."""
NOISE_ASKS, PASS = 3, 0.5


@dataclass(frozen=True, slots=True)
class Judge:
    """Labels of equally spaced ``steps`` by weight, and a judge: right with ``accuracy``, else a step off."""

    weights: tuple[float, ...]
    accuracy: float

    def pair(self, random: Random) -> Pair:
        """Give a label with a score."""
        last = len(self.weights) - 1
        label = random.choices(range(last + 1), self.weights)[0]
        return label / last, self._score(label, random) / last

    def asked_again(self, random: Random) -> list[float]:
        """Give the scores of one example in several asks."""
        last = len(self.weights) - 1
        label = random.choices(range(last + 1), self.weights)[0]
        return [self._score(label, random) / last for _ in range(NOISE_ASKS)]

    def _score(self, label: int, random: Random) -> int:
        if random.random() < self.accuracy:
            return label
        neighbours = [step for step in (label - 1, label + 1) if 0 <= step < len(self.weights)]
        return random.choice(neighbours)


JUDGES: Mapping[str, Judge] = {
    "90 % right, 30/70": Judge((30, 70), 0.9),
    "80 % right, 50/50": Judge((50, 50), 0.8),
    "95 % right, 20/80": Judge((20, 80), 0.95),
    "quarters, 80 % right": Judge((1, 1, 1, 1, 1), 0.8),
    "quarters, 50 % right": Judge((1, 1, 2, 4, 8), 0.5),
}


class Truth:
    """What a calibration would find with no end of labels.

    Figures of categories are those of the categories that a sample's labels have, as the page says: no sample
    tells of one that it lacks.
    """

    def __init__(self, judge: Judge, random: Random) -> None:
        self._pairs = [judge.pair(random) for _ in range(MANY)]
        self._figures = _found(judge, self._pairs, random, draws=1)[0]
        self._of_categories: dict[tuple[float, ...], dict[str, float]] = {}

    def figure(self, name: str, categories: tuple[float, ...]) -> float:
        """Give the true value of a figure."""
        if categories not in self._of_categories:
            placed = category_pairs(self._pairs, categories)
            self._of_categories[categories] = {
                "kappa": weighted_kappa(placed, "quadratic"),
                "kappa_linear": weighted_kappa(placed, "linear"),
                "alpha_nominal": krippendorff_alpha(placed, "nominal"),
            }
        value = self._of_categories[categories].get(name, self._figures[name].value)
        assert value is not None
        return value


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give, by number of labels, the coverage of all figures of the judge whose figures have the lowest.

    The note names the lowest figure of any judge: the lowest of 55 that were simulated so few times lies some
    2.3 standard errors below what it would be.
    """
    runs = max(FEWEST_RUNS, round(RUNS * scale))
    truths = {name: Truth(judge, Random(f"{seed} {name}")) for name, judge in JUDGES.items()}
    for labels in LABELS:
        judges = {name: _coverage(name, truths[name], labels, runs, seed) for name in JUDGES}
        share, name = min((mean(covered.values()), name) for name, covered in judges.items())
        lowest, figure = min(
            (share, f"{each}, {name}") for name in judges for each, share in judges[name].items()
        )
        what = f"coverage, {labels} labels, lowest: {name}"
        yield share_row(what, round(share * runs), runs, ">=", 0.93, f"lowest figure: {lowest:.3f}, {figure}")


def _coverage(name: str, truth: Truth, labels: int, runs: int, seed: int) -> Mapping[str, float]:
    """Give of each figure in what share of those that were printed the interval held the truth."""
    random = Random(f"{seed} {name} {labels}")
    held: dict[str, list[bool]] = {}
    for _ in range(runs):
        pairs = [JUDGES[name].pair(random) for _ in range(labels)]
        figures, categories = _found(JUDGES[name], pairs, random, DRAWS)
        for each, figure in figures.items():
            if (ends := figure.interval) is not None:
                true = truth.figure(each, categories)
                held.setdefault(each, []).append(ends.low - 1e-9 <= true <= ends.high + 1e-9)
    return {each: mean(covered) for each, covered in held.items()}


def _found(
    judge: Judge, pairs: Sequence[Pair], random: Random, draws: int
) -> tuple[Mapping[str, BootstrapEstimate], tuple[float, ...]]:
    """Give the figures of a calibration with as many examples, and the categories of their labels."""
    how = BootstrapSettings(draws=draws, seed=random.randrange(2**32))
    found = agreement([[pair] for pair in pairs], how=how)
    noise = judge_noise([judge.asked_again(random) for _ in pairs], PASS, how)
    return {**found.figures, "spread": noise.spread, "flips": noise.flips}, found.confusion.categories

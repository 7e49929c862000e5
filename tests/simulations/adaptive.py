"""Would ``--repetitions 2..8`` pay? Rules that spend more where a verdict is open, against fixed repetitions.

``python -m tests.simulations.adaptive`` prints the table (``--quick``: of few draws). It is no promise of
ours, so that it has no goals beside it: a rule would be worth building that keeps 6.2 % of false verdicts in
all and 3.5 % of a suite whose tasks move, and needs 15 % fewer trials than fixed repetitions that find as
much.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from statistics import fmean

from tests.simulations.parallel import in_parallel
from tests.simulations.repetition_rules import RULES, Ending, Rule, ended, fixed
from tests.simulations.score_model import Suite, compared, diffuse, drawn_suite, focused, moved
from tests.simulations.shapes import ALL_SMALL, MANY_SMALL, SEVEN_LARGE

MOST = 8
FIXED = (2, 3, 4, 6, 8)
RUNS, PARTS, SHOWN = 500, 10, 200

CHANGES: Mapping[str, float] = {
    "same": 0.25,
    "hetero": 0.25,
    "diffuse .1": 0.1,
    "focused .1": 0.1,
    "diffuse .2": 0.1,
    "focused .2": 0.1,
    "bucket .2": 0.1,
}
"""What is compared, and how often: half of all changes change nothing on average."""

EFFECTS = [change for change in CHANGES if change not in ("same", "hetero")]


def changed(change: str, before: Suite, first_bucket: int, random: Random) -> Suite:
    """Give the suite after a change."""
    if change == "same":
        return before
    if change == "hetero":
        return moved(before, random)
    kind, rise = change.split()
    if kind == "bucket":
        return [*diffuse(before[:first_bucket], float(rise)), *before[first_bucket:]]
    return diffuse(before, float(rise)) if kind == "diffuse" else focused(before, float(rise), random)


def simulated(
    rules: Sequence[Rule], change: str, sizes: Sequence[int], runs: int, seed: int
) -> list[list[Ending]]:
    """Play all rules on the same draws."""
    random = Random(f"adaptive {change} {sum(sizes)} {seed}")
    endings: list[list[Ending]] = [[] for _ in rules]
    for _ in range(runs):
        before = drawn_suite(sum(sizes), random)
        tried = compared(before, changed(change, before, sizes[0], random), MOST, MOST, random)
        for rule, of_rule in zip(rules, endings, strict=True):
            of_rule.append(ended(rule, tried, sizes, buckets=change in ("same", "bucket .2")))
    return endings


@dataclass(frozen=True, slots=True)
class Figures:
    """What a rule does: false verdicts, what it finds of each effect, and its trials."""

    family: float
    hetero: float
    found: Mapping[str, float]
    trials: float
    trials_of_changes: float

    @property
    def power(self) -> float:
        """The mean over all effects of how often they are found."""
        return fmean(self.found.values())


def figures(rules: Sequence[Rule], sizes: Sequence[int], runs: int) -> list[Figures]:
    """Simulate all changes under all rules."""
    by_change = {}
    for change in CHANGES:
        parts = in_parallel(simulated, [(rules, change, sizes, runs, at) for at in range(PARTS)])
        by_change[change] = [[ending for part in parts for ending in part[at]] for at in range(len(rules))]
    return [
        _figures({change: endings[at] for change, endings in by_change.items()}) for at in range(len(rules))
    ]


def _figures(endings: Mapping[str, Sequence[Ending]]) -> Figures:
    trials = sum(often * fmean(end.trials for end in endings[change]) for change, often in CHANGES.items())
    return Figures(
        family=fmean(end.anything for end in endings["same"]),
        hetero=fmean(end.suite != 0 for end in endings["hetero"]),
        found={
            change: fmean(
                (end.bucket if change == "bucket .2" else end.suite) == 1 for end in endings[change]
            )
            for change in EFFECTS
        },
        trials=trials,
        trials_of_changes=fmean(fmean(end.trials for end in endings[change]) for change in EFFECTS),
    )


def score_shown(rule: Rule) -> float:
    """Give the score, on average, of unchanged tasks that pass 9 times of 10."""
    random = Random(f"score shown {rule.name}")
    suite = [(0.1, 0.0, 0.0, 0.0, 0.9)] * 41
    return fmean(
        ended(rule, compared(suite, suite, MOST, MOST, random), [1] * 41, buckets=False).score
        for _ in range(SHOWN)
    )


def equal_power(power: float, of_fixed: Sequence[Figures]) -> float:
    """Give the fixed repetitions, between whole ones too, that find as much; the most if none does."""
    for less, more in pairwise(of_fixed):
        if less.power <= power < more.power:
            return less.trials + (power - less.power) / (more.power - less.power) * (
                more.trials - less.trials
            )
    return of_fixed[0].trials if power < of_fixed[0].power else of_fixed[-1].trials


def equal_trials(trials: float, of_fixed: Sequence[Figures]) -> float:
    """Give what fixed repetitions, between whole ones too, find with so many trials."""
    for less, more in pairwise(of_fixed):
        if less.trials <= trials <= more.trials:
            return less.power + (trials - less.trials) / (more.trials - less.trials) * (
                more.power - less.power
            )
    return of_fixed[-1].power


def print_table(sizes: Sequence[int], stored: int, runs: int) -> None:
    """Print every rule's figures beside those of fixed repetitions."""
    of_fixed = [fixed(repetitions) for repetitions in FIXED]
    rules = [replace(rule, stored=stored) for rule in (*of_fixed, *RULES) if not (stored and rule.betting)]
    results = figures(rules, sizes, runs)
    fixed_figures = results[: len(of_fixed)]
    against = f"a stored baseline x{stored}" if stored else "a baseline repeated as often"
    print(f"\n{sum(sizes)} tasks in {len(sizes)} buckets, against {against}")
    effects = " ".join(f"{effect:>10}" for effect in EFFECTS)
    print(f"{'':36} family hetero {effects}  power trials   of .9  fewer, more power; fewer if all change")
    for rule, result in zip(rules, results, strict=True):
        found = " ".join(f"{share:10.3f}" for share in result.found.values())
        line = f"{rule.name:36} {result.family:6.3f} {result.hetero:6.3f} {found}"
        line += f"  {result.power:.3f} {result.trials:6.2f}  {score_shown(rule):6.3f}"
        if rule not in rules[: len(of_fixed)]:
            equal = equal_power(result.power, fixed_figures)
            more_power = result.power - equal_trials(result.trials, fixed_figures)
            line += f"  {1 - result.trials / equal:+6.0%} {more_power:+11.3f}"
            line += f" {1 - result.trials_of_changes / equal:+20.0%}"
        print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.simulations.adaptive", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws")
    few = parser.parse_args().quick
    for sizes_of in (MANY_SMALL, ALL_SMALL, SEVEN_LARGE):
        for repetitions_of_baseline in (0, 3):
            print_table(sizes_of, repetitions_of_baseline, max(5, RUNS // (100 if few else 1) // PARTS))

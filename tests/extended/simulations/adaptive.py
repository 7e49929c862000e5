"""How often ``--repetitions 2..6`` is wrong, and what it saves beside fixed repetitions that find as much.

``python -m tests.extended.simulations.adaptive`` prints what is found and saved (``--quick``: few draws).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from statistics import fmean

from pytest_agenteval.store.run_folder import RepetitionRule
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.repetition_rules import RULES, Ending, ended, fixed
from tests.extended.simulations.rows import Row, worst_rows
from tests.extended.simulations.score_model import (
    MODELS,
    Suite,
    compared,
    diffuse,
    drawn_suite,
    focused,
    moved,
    pass_fail,
)
from tests.extended.simulations.shapes import ALL_SMALL, MANY_SMALL, SEVEN_LARGE

MOST = 8
FIXED = (2, 3, 4, 6, 8)
RUNS, NULLS, PARTS, SHOWN = 500, 1_500, 10, 200
FEW = 40
SHAPES = (MANY_SMALL, ALL_SMALL, SEVEN_LARGE)

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


def run(scale: float, seed: int) -> Iterator[Row]:
    """Give how often verdicts after one look or two are false, in the worst of several suites and baselines.

    A suite of 41, 25 or 91 tasks is compared with a baseline that was tried once, thrice, or as often as the
    new run. The goals are those of one look.
    """
    runs = max(FEW, round(NULLS * scale))
    for model in ("pass/fail, all p = .95", "pass/fail, p ~ Beta(.3, .3)", "quarters"):
        cells = [(sizes, stored) for sizes in SHAPES for stored in (0, 1, 3)]
        counts = in_parallel(false_verdicts, [(model, *cell, runs, seed) for cell in cells])
        names = [f"{sum(sizes)} tasks, baseline x{stored or '2..6'}" for sizes, stored in cells]
        goals = ("nothing changed: a suite", 0.025), ("nothing changed: anything", 0.05)
        for at, (what, goal) in enumerate((*goals, ("tasks move: tasks like these", 0.025))):
            hits = {name: count[at] for name, count in zip(names, counts, strict=True)}
            yield from worst_rows(f"2..6, {model}, {what}", hits, runs, "<=", goal)


def false_verdicts(
    model: str, sizes: Sequence[int], stored: int, runs: int, seed: int
) -> tuple[int, int, int]:
    """Count false verdicts: of a suite, of anything, and of tasks like these where 3 in 10 are drawn anew."""
    random = Random(f"looks {model} {sum(sizes)} {stored} {seed}")
    scores, rule = MODELS[model], RULES["2..6"]
    suites = anything = like_these = 0
    for _ in range(runs):
        before = scores.suite(sum(sizes), random)
        old = stored or rule.high
        same = ended(rule, compared(before, before, old, rule.high, random), sizes, stored)
        suites, anything = suites + (same.suite != 0), anything + same.anything
        after = scores.drawn_anew(before, random)
        anew = ended(rule, compared(before, after, old, rule.high, random), sizes, stored)
        like_these += anew.like_these != 0
    return suites, anything, like_these


def simulated(change: str, sizes: Sequence[int], stored: int, runs: int, seed: int) -> list[list[Ending]]:
    """Play fixed repetitions and all rules on the same draws."""
    random = Random(f"adaptive {change} {sum(sizes)} {seed}")
    rules = [*map(fixed, FIXED), *RULES.values()]
    endings: list[list[Ending]] = [[] for _ in rules]
    for _ in range(runs):
        before = drawn_suite(sum(sizes), random)
        tried = compared(before, changed(change, before, sizes[0], random), MOST, MOST, random)
        for rule, of_rule in zip(rules, endings, strict=True):
            of_rule.append(ended(rule, tried, sizes, stored))
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


def figures(sizes: Sequence[int], stored: int, runs: int) -> list[Figures]:
    """Simulate all changes under fixed repetitions and all rules."""
    by_change = {}
    for change in CHANGES:
        parts = in_parallel(simulated, [(change, sizes, stored, runs, at) for at in range(PARTS)])
        rules = zip(*parts, strict=True)
        by_change[change] = [[ending for part in of_rule for ending in part] for of_rule in rules]
    return [
        _figures({change: endings[at] for change, endings in by_change.items()})
        for at in range(len(FIXED) + len(RULES))
    ]


def _figures(endings: Mapping[str, Sequence[Ending]]) -> Figures:
    trials = sum(often * fmean(end.trials for end in endings[change]) for change, often in CHANGES.items())
    return Figures(
        family=fmean(end.anything for end in endings["same"]),
        hetero=fmean(end.like_these != 0 for end in endings["hetero"]),
        found={
            change: fmean(
                (end.bucket if change == "bucket .2" else end.suite) == 1 for end in endings[change]
            )
            for change in EFFECTS
        },
        trials=trials,
        trials_of_changes=fmean(fmean(end.trials for end in endings[change]) for change in EFFECTS),
    )


@cache
def score_shown(rule: RepetitionRule) -> float:
    """Give the score, on average, of unchanged tasks that pass 9 times of 10."""
    random = Random(f"score shown {rule}")
    suite = [pass_fail(0.9)] * sum(MANY_SMALL)
    return fmean(
        ended(rule, compared(suite, suite, MOST, MOST, random), MANY_SMALL).score for _ in range(SHOWN)
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
    results = figures(sizes, stored, runs)
    of_fixed = results[: len(FIXED)]
    against = f"a stored baseline x{stored}" if stored else "a baseline repeated as often"
    print(f"\n{sum(sizes)} tasks in {len(sizes)} buckets, against {against}")
    effects = " ".join(f"{effect:>10}" for effect in EFFECTS)
    print(f"{'':8} family hetero {effects}  power trials   of .9  fewer, more power; fewer if all change")
    rules = {**{f"{number} fixed": fixed(number) for number in FIXED}, **RULES}
    for (name, rule), result in zip(rules.items(), results, strict=True):
        found = " ".join(f"{share:10.3f}" for share in result.found.values())
        line = f"{name:8} {result.family:6.3f} {result.hetero:6.3f} {found}"
        line += f"  {result.power:.3f} {result.trials:6.2f}  {score_shown(rule):6.3f}"
        if name in RULES:
            equal = equal_power(result.power, of_fixed)
            more_power = result.power - equal_trials(result.trials, of_fixed)
            line += f"  {1 - result.trials / equal:+6.0%} {more_power:+11.3f}"
            line += f" {1 - result.trials_of_changes / equal:+20.0%}"
        print(line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.extended.simulations.adaptive", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="few draws")
    few = parser.parse_args().quick
    for sizes_of in SHAPES:
        for repetitions_of_baseline in (0, 3):
            print_table(sizes_of, repetitions_of_baseline, max(5, RUNS // (100 if few else 1) // PARTS))

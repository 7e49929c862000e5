"""How often ``improve`` confirms prompts that are no better, and how often those that are.

``python -m tests.simulations.prompt_loops`` prints the latter (``--quick``: of few draws): how much a
held-out split of one task a bucket can see is no promise, so that it has no goals beside it.

A loop: a baseline, whose worst bucket becomes the focus, eight rounds of a changed prompt against the kept
one (the focus alone, then all of dev, each tried thrice on either side), and where anything was kept, the
kept prompt against the first on held-out tasks. All decisions are those of ``improve``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from statistics import fmean
from typing import TypeAlias

from pytest_agenteval.compare.comparison import Comparison, Pair, SuiteComparison, TaskChange
from pytest_agenteval.compare.findings import Finding, suite_findings
from pytest_agenteval.compare.verdict import Change, Verdict
from pytest_agenteval.loop.improve.decisions import (
    confirm,
    decide_round,
    decide_screen,
    repetitions_to_confirm,
)
from pytest_agenteval.scoring.exact_tests import PairedScores
from tests.simulations.parallel import in_parallel
from tests.simulations.rows import Row, share_row
from tests.simulations.score_model import (
    Suite,
    compared,
    diffuse,
    drawn_suite,
    mended,
    moved,
    trials,
    true_mean,
)
from tests.simulations.shapes import MANY_SMALL

ROUNDS, REPETITIONS, MOST_REPETITIONS = 8, 3, 10
LOOPS, PARTS, FEW, LOOKS = 2_000, 10, 50, 5
ALL_LOOKS = range(1, LOOKS + 1)
MOST_WITHOUT_KEEP = 2
"""After so many rounds on end without a keep a loop ends."""

Buckets: TypeAlias = Mapping[str, Sequence[PairedScores]]


@dataclass(frozen=True, slots=True)
class State:
    """What a prompt is worth: true scores of the tasks of dev, by bucket, and of each one's held-out task."""

    dev: Sequence[Suite]
    held_out: Suite


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a loop: how many rounds were kept, and of each look whether it would have confirmed."""

    rounds: int
    kept: int
    confirmed: tuple[bool, ...]


def first_state(random: Random) -> State:
    """Draw a suite of 41 tasks in 25 buckets, and 25 held-out ones."""
    return State([drawn_suite(size, random) for size in MANY_SMALL], drawn_suite(len(MANY_SMALL), random))


def changed(change: str, state: State, focus: int, random: Random) -> State:
    """Give the state after a prompt was changed: ``same``, ``hetero``, ``focus .3`` or ``diffuse .1``."""
    if change == "same":
        return state
    if change == "hetero":
        return State([moved(bucket, random) for bucket in state.dev], moved(state.held_out, random))
    where, rise = change.split()
    if where == "diffuse":
        return State(
            _parts(diffuse(_all(state.dev), float(rise)), MANY_SMALL), diffuse(state.held_out, float(rise))
        )
    dev, held_out = list(state.dev), list(state.held_out)
    dev[focus] = [_risen(task, float(rise)) for task in dev[focus]]
    held_out[focus] = _risen(held_out[focus], float(rise))
    return State(dev, held_out)


def _risen(task: tuple[float, ...], rise: float) -> tuple[float, ...]:
    misses = 1 - true_mean(task)
    return mended(task, min(1.0, rise / misses)) if misses else task


def _all(buckets: Sequence[Suite]) -> Suite:
    return [task for bucket in buckets for task in bucket]


def _parts(suite: Suite, sizes: Sequence[int]) -> list[Suite]:
    return [suite[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]


def loop(change: str, random: Random, patience: int = MOST_WITHOUT_KEEP) -> Ending:
    """Play one loop; an improver (not ``same``, not ``hetero``) changes nothing more once it was kept."""
    first = kept = first_state(random)
    focus = _worst_bucket(first, random)
    keeps = without_keep = rounds = 0
    while rounds < ROUNDS and without_keep < patience:
        rounds += 1
        is_done = keeps and change not in ("same", "hetero")
        new = kept if is_done else changed(change, kept, focus, random)
        if _is_kept(kept, new, focus, random):
            kept, keeps, without_keep = new, keeps + 1, 0
        else:
            without_keep += 1
    looks = ALL_LOOKS if keeps else ()
    return Ending(rounds, keeps, tuple(_is_confirmed(first, kept, focus, look, random) for look in looks))


def _worst_bucket(state: State, random: Random) -> int:
    """Try everything and give the bucket of the lowest mean."""
    means = [fmean(fmean(trials(task, REPETITIONS, random)) for task in bucket) for bucket in state.dev]
    return means.index(min(means))


def _is_kept(kept: State, new: State, focus: int, random: Random) -> bool:
    screen = {str(focus): compared(kept.dev[focus], new.dev[focus], REPETITIONS, REPETITIONS, random)}
    if not decide_screen(comparison(screen), {str(focus)}).accepted:
        return False
    tried = [
        compared(old, after, REPETITIONS, REPETITIONS, random)
        for old, after in zip(kept.dev, new.dev, strict=True)
    ]
    return decide_round(comparison(_numbered(tried)), {str(focus)}).accepted


def _is_confirmed(first: State, kept: State, focus: int, look: int, random: Random) -> bool:
    """Try the held-out tasks of both, as a split of its own for each number of looks."""
    times = repetitions_to_confirm(1, look, REPETITIONS, MOST_REPETITIONS, [1] * len(MANY_SMALL))
    tried = [[pair] for pair in compared(first.held_out, kept.held_out, times, times, random)]
    return confirm(comparison(_numbered(tried)), {str(focus)}, look).confirmed


def _numbered(buckets: Sequence[Sequence[PairedScores]]) -> Buckets:
    return {str(number): pairs for number, pairs in enumerate(buckets)}


def comparison(buckets: Buckets) -> Comparison:
    """Give what ``compare`` says of these scores, without what nobody decides by."""
    findings = suite_findings(buckets)
    everything = [pair for pairs in buckets.values() for pair in pairs]
    suite = SuiteComparison(
        name="simulated",
        old_who=("any", ""),
        new_who=("any", ""),
        suite=_change("simulated", everything, findings.suite),
        buckets=tuple(_change(name, buckets[name], of_name) for name, of_name in findings.buckets.items()),
        tasks=tuple(
            TaskChange(f"{name}_{number}", name, "", tuple(old), tuple(new), (), ())
            for name, pairs in buckets.items()
            for number, (old, new) in enumerate(pairs)
        ),
        graders=(),
        sensitivity=None,
        obstacles=(),
        differs=(),
        repetitions=((1, 1), (1, 1)),
        errored=(0, 0),
        broken_by_chance=0.0,
        tokens=Pair(None, None),
        seconds=Pair(None, None),
        cost_usd=Pair(None, None),
    )
    return Comparison("old", "new", same_run=True, tolerance=0.05, suites=(suite,))


def _change(name: str, pairs: Sequence[PairedScores], finding: Finding) -> Change:
    verdicts: dict[int, Verdict] = {1: "better", -1: "worse", 0: "cannot tell"}
    old, new = (fmean(fmean(pair[side]) for pair in pairs) for side in (0, 1))
    return Change(
        name, len(pairs), old, new, verdicts[finding.direction], finding.p, testable=finding.testable
    )


def endings(change: str, loops: int, seed: str, patience: int = MOST_WITHOUT_KEEP) -> list[Ending]:
    """Play so many loops."""
    random = Random(f"prompt loops {change} {seed}")
    return [loop(change, random, patience) for _ in range(loops)]


def play(change: str, loops: int, seed: int, patience: int = MOST_WITHOUT_KEEP) -> list[Ending]:
    """Play so many loops in several processes."""
    parts = [(change, max(1, loops // PARTS), f"{seed} {part}", patience) for part in range(PARTS)]
    return [ending for part in in_parallel(endings, parts) for ending in part]


def count_confirmed(played: Sequence[Ending], look: int = 1) -> int:
    """Count the loops that are confirmed where this is the look of that number."""
    return sum(bool(ending.kept) and ending.confirmed[look - 1] for ending in played)


def run(scale: float, seed: int) -> Iterator[Row]:
    """Loops whose every prompt is as good as the first, or moves 3 tasks of 10 by nothing on average."""
    loops = max(FEW, round(LOOPS * scale))
    for change in ("same", "hetero"):
        for patience in (MOST_WITHOUT_KEEP, ROUNDS):
            played = play(change, loops, seed, patience)
            kept = sum(bool(ending.kept) for ending in played) / len(played)
            what = f"loops confirmed, {change}" + ("" if patience < ROUNDS else ", always 8 rounds")
            note = f"{kept:.2f} kept something"
            yield share_row(what, count_confirmed(played), len(played), "<=", 0.05, note)
            later = max(count_confirmed(played, look) for look in range(2, LOOKS + 1))
            yield share_row(f"{what}, at any look of 2 to {LOOKS}", later, len(played), "<=", 0.05)


def print_power(loops: int, seed: int) -> None:
    """Print how often improvers are kept and confirmed."""
    print(f"{'a rise by':14} {'kept':>5}   confirmed at look" + "".join(f"{look:6}" for look in ALL_LOOKS))
    for change in ("focus .2", "focus .3", "focus .5", "diffuse .05", "diffuse .1", "diffuse .2"):
        played = play(change, loops, seed)
        kept = sum(bool(ending.kept) for ending in played) / len(played)
        shares = "".join(f"{count_confirmed(played, look) / len(played):6.2f}" for look in ALL_LOOKS)
        print(f"{change:14} {kept:5.2f}{'':20}{shares}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.simulations.prompt_loops", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few draws")
    print_power(FEW if parser.parse_args().quick else LOOPS // 2, 20261122)

"""How often ``improve`` confirms prompts that are no better, and how often those that are.

``python -m tests.extended.simulations.prompt_loops`` prints the latter (``--quick``: few draws), for 1, 2, 4
held-out tasks of each bucket: how much so few tasks can see is no promise, so that it has no goals beside it.

A loop: a baseline, whose worst bucket becomes the focus, eight rounds of a changed prompt against the kept
one (the focus alone, then all of dev, each tried thrice on either side), and where anything was kept, the
kept prompt against the first on held-out tasks. All decisions are those of ``improve``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from statistics import fmean

from pytest_agenteval.compare.comparison import Pair, RunComparison, SuiteComparison, TaskChange
from pytest_agenteval.loop.improve.acceptance import (
    confirm,
    decide_round,
    decide_screen,
    repetitions_to_confirm,
)
from pytest_agenteval.loop.improve.attempts import MOST_REPETITIONS
from pytest_agenteval.loop.improve.improver import WITHOUT_KEEP
from tests.extended.simulations.parallel import in_parallel
from tests.extended.simulations.rows import Row, share_row
from tests.extended.simulations.score_model import (
    Suite,
    Task,
    compared,
    diffuse,
    drawn_suite,
    mended,
    moved,
    trials,
    true_mean,
)
from tests.extended.simulations.shapes import MANY_SMALL, TOLERANCE, Buckets, judged

ROUNDS, REPETITIONS = 8, 3
LOOPS, PARTS, FEW, LOOKS = 2_000, 10, 50, 5
ALL_LOOKS = range(1, LOOKS + 1)
ANY_LOOK = 0.05
"""What the levels of all looks add up to."""


@dataclass(frozen=True, slots=True)
class State:
    """What a prompt is worth: true scores of tasks to work with and of held-out tasks, by bucket."""

    dev: Sequence[Suite]
    held_out: Sequence[Suite]


@dataclass(frozen=True, slots=True)
class Loop:
    """A kind of loop: what each round changes, and how many held-out tasks there are of each bucket.

    ``patience`` is after how many rounds in a row without an accepted change it ends.
    """

    change: str
    held_out: int = 1
    patience: int = WITHOUT_KEEP

    @property
    def improves(self) -> bool:
        """Whether what it changes is better, and not only other."""
        return self.change not in ("same", "hetero")


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of a loop: how many rounds were kept, and of each look whether it would have confirmed."""

    rounds: int
    kept: int
    confirmed: tuple[bool, ...]


def changed(change: str, state: State, focus: int, random: Random) -> State:
    """Give the state after a prompt was changed: ``same``, ``hetero``, ``focus .3`` or ``diffuse .1``."""
    if change == "same":
        return state
    if change == "hetero":
        return State(*([moved(bucket, random) for bucket in split] for split in (state.dev, state.held_out)))
    where, rise = change.split()
    splits = [list(state.dev), list(state.held_out)]
    for buckets in splits:
        if where == "diffuse":
            buckets[:] = _parts(diffuse(_all(buckets), float(rise)), [len(bucket) for bucket in buckets])
        else:
            buckets[focus] = [_risen(task, float(rise)) for task in buckets[focus]]
    return State(*splits)


def _risen(task: Task, rise: float) -> Task:
    misses = 1 - true_mean(task)
    return mended(task, min(1.0, rise / misses)) if misses else task


def _all(buckets: Sequence[Suite]) -> Suite:
    return [task for bucket in buckets for task in bucket]


def _parts(suite: Suite, sizes: Sequence[int]) -> list[Suite]:
    return [suite[end - size : end] for end, size in zip(accumulate(sizes), sizes, strict=True)]


def played(loop: Loop, random: Random) -> Ending:
    """Play one loop; what improves has nothing more to change once it was kept.

    Where it improves, the focus's held-out tasks are as hard as those that it was chosen by. Else they are
    drawn as all others: to draw hard ones anew would be to improve them.
    """
    first = State([drawn_suite(size, random) for size in MANY_SMALL], _held_out(loop, random))
    focus = _worst_bucket(first, random)
    if loop.improves:
        alike = random.choices(first.dev[focus], k=loop.held_out)
        first = State(first.dev, [*first.held_out[:focus], alike, *first.held_out[focus + 1 :]])
    kept, keeps, without_keep, rounds = first, 0, 0, 0
    while rounds < ROUNDS and without_keep < loop.patience:
        rounds += 1
        is_done = keeps and loop.improves
        new = kept if is_done else changed(loop.change, kept, focus, random)
        if _is_kept(kept, new, focus, random):
            kept, keeps, without_keep = new, keeps + 1, 0
        else:
            without_keep += 1
    looks = ALL_LOOKS if keeps else ()
    return Ending(rounds, keeps, tuple(_is_confirmed(first, kept, focus, look, random) for look in looks))


def _held_out(loop: Loop, random: Random) -> list[Suite]:
    return [drawn_suite(loop.held_out, random) for _ in MANY_SMALL]


def _worst_bucket(state: State, random: Random) -> int:
    """Try everything and give the bucket of the lowest mean."""
    means = [fmean(fmean(trials(task, REPETITIONS, random)) for task in bucket) for bucket in state.dev]
    return means.index(min(means))


def _is_kept(kept: State, new: State, focus: int, random: Random) -> bool:
    screen = {str(focus): compared(kept.dev[focus], new.dev[focus], REPETITIONS, REPETITIONS, random)}
    if not decide_screen(comparison(screen), {str(focus)}).accepted:
        return False
    tried = _tried(kept.dev, new.dev, REPETITIONS, random)
    return decide_round(comparison(tried), {str(focus)}).accepted


def _is_confirmed(first: State, kept: State, focus: int, look: int, random: Random) -> bool:
    """Try the held-out tasks of both, as if it were the look of that number."""
    sizes = [len(bucket) for bucket in first.held_out]
    times = repetitions_to_confirm(sizes[focus], look, REPETITIONS, MOST_REPETITIONS, sizes)
    tried = _tried(first.held_out, kept.held_out, times, random)
    return confirm(comparison(tried), {str(focus)}, look).confirmed


def _tried(old: Sequence[Suite], new: Sequence[Suite], times: int, random: Random) -> Buckets:
    buckets = zip(old, new, strict=True)
    return {str(at): compared(*pair, times, times, random) for at, pair in enumerate(buckets)}


def comparison(buckets: Buckets) -> RunComparison:
    """Give what ``compare`` says of these scores, without what nobody decides by."""
    change = judged(buckets)
    suite = SuiteComparison(
        name="simulated",
        old_who=("any", ""),
        new_who=("any", ""),
        suite=change.suite,
        buckets=change.buckets,
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
    return RunComparison("old", "new", same_run=True, tolerance=TOLERANCE, suites=(suite,))


def endings(loop: Loop, loops: int, seed: str) -> list[Ending]:
    """Play so many loops."""
    random = Random(f"prompt loops {loop} {seed}")
    return [played(loop, random) for _ in range(loops)]


def play(loop: Loop, loops: int, seed: int) -> list[Ending]:
    """Play so many loops in several processes."""
    parts = [(loop, max(1, loops // PARTS), f"{seed} {part}") for part in range(PARTS)]
    return [ending for part in in_parallel(endings, parts) for ending in part]


def count_confirmed(ended: Sequence[Ending], look: int = 1) -> int:
    """Count the loops that are confirmed where this is the look of that number."""
    return sum(bool(ending.kept) and ending.confirmed[look - 1] for ending in ended)


def _share_kept(ended: Sequence[Ending]) -> float:
    return sum(bool(ending.kept) for ending in ended) / len(ended)


def _is_any_confirmed(row: Sequence[Ending]) -> bool:
    """Whether any of these loops is, the first at look 1, the second at look 2."""
    return any(bool(ending.kept) and ending.confirmed[at] for at, ending in enumerate(row))


def run(scale: float, seed: int) -> Iterator[Row]:
    """Loops whose every prompt is as good as the first, or moves 3 tasks of 10 by nothing on average."""
    loops = max(FEW, round(LOOPS * scale))
    for change in ("same", "hetero"):
        for patience in (WITHOUT_KEEP, ROUNDS):
            ended = play(Loop(change, patience=patience), loops, seed)
            what = f"loops confirmed, {change}" + ("" if patience < ROUNDS else ", always 8 rounds")
            note = f"{_share_kept(ended):.2f} kept something"
            yield share_row(what, count_confirmed(ended), len(ended), "<=", 0.05, note)
            later = max(count_confirmed(ended, look) for look in range(2, LOOKS + 1))
            yield share_row(f"{what}, at any look of 2 to {LOOKS}", later, len(ended), "<=", 0.05)
            if patience == ROUNDS:  # a loop that nobody can ask for: how much the early end saves
                continue
            rows = [ended[start : start + LOOKS] for start in range(0, len(ended), LOOKS)]
            any_of_row = sum(map(_is_any_confirmed, rows))
            yield share_row(f"{what}, any of {LOOKS} in a row", any_of_row, len(rows), "<=", ANY_LOOK)


def print_power(loops: int, seed: int) -> None:
    """Print how often improvers are kept and confirmed."""
    print(f"{'held out':>8} {'a rise by':12} {'kept':>5}   confirmed at look", *map("{:5}".format, ALL_LOOKS))
    for held_out in (1, 2, 4):
        for change in ("focus .2", "focus .3", "focus .5", "diffuse .05", "diffuse .1", "diffuse .2"):
            ended = play(Loop(change, held_out), loops, seed)
            shares = [f"{count_confirmed(ended, look) / len(ended):5.2f}" for look in ALL_LOOKS]
            print(f"{held_out:8} {change:12} {_share_kept(ended):5.2f} {'':19}", *shares, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m tests.extended.simulations.prompt_loops", description=__doc__
    )
    parser.add_argument("--quick", action="store_true", help="few draws")
    print_power(FEW if parser.parse_args().quick else LOOPS // 2, 20261122)

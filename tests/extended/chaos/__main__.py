"""``python -m tests.extended.chaos [--kills N] [--seed N] [-k WORD] [--write]``: a verdict for each scenario.

The exit status is 1 where anything was lost, or where a run was twice too slow for a verdict. ``--write``
puts the table into docs/project/limits.md. What is printed beside each scenario is its time while
another one ran, with all reports of its runs, whose figures must be the same.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from tests.extended.chaos.hostile import INPUTS, run_beside
from tests.extended.chaos.kills import killed, kills
from tests.extended.chaos.ray_kills import has_ray, ray_killed, ray_kills
from tests.extended.chaos.surroundings import SURROUNDINGS
from tests.extended.chaos.verdicts import (
    LOST,
    NO_VERDICT,
    OK,
    CarriedOut,
    Verdict,
    group_rows,
    verdict,
    write_table,
)
from tests.extended.chaos.whole_runs import four_shards, half_the_price, storm

RAY = ("--agent-executor=ray:2",)


class Scenario(NamedTuple):
    """What is carried out; the docs tell of all of one ``group`` together."""

    group: str
    name: str
    carry_out: CarriedOut


def scenarios(count: int, trials: int, seed: int) -> Iterator[Scenario]:
    """Give every scenario."""
    for kill in kills(count, trials, seed):
        yield Scenario("killed and resumed", str(kill), partial(killed, kill=kill, trials=trials))
    for ray_kill in ray_kills(count // 2, trials, seed):
        carry_out = partial(ray_killed, kill=ray_kill, trials=trials)
        yield Scenario("killed on a Ray cluster, and resumed", str(ray_kill), carry_out)
    for how in (("-n", "0"), ("-n", "4"), *([RAY] if has_ray() else ())):
        carry_out = partial(half_the_price, arguments=how, seed=seed)
        yield Scenario("a budget of half the price", f"half the price, {' '.join(how)}", carry_out)
    for workers in ("0", "4"):
        carry_out = partial(storm, workers=workers)
        yield Scenario("every request put off for 60 s", f"a storm of 60 s, -n {workers}", carry_out)
    yield Scenario("four shards merged, beside one run", "four shards", four_shards)
    for given in INPUTS:
        yield Scenario("hostile inputs", given.name, partial(run_beside, given=given))
    for each in SURROUNDINGS:
        yield Scenario("hostile surroundings", each.__name__.replace("_", " "), each)


def main() -> int:
    """Carry all out, some at once, each in a process of its own."""
    options = argparse.ArgumentParser(prog="python -m tests.extended.chaos", description=__doc__)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--trials", type=int, default=200)
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options.add_argument("--at-once", type=int, default=2, help="so many scenarios at once (default: 2)")
    options.add_argument("-k", default="", help="only scenarios whose group or name has this in it")
    options.add_argument("--write", action="store_true", help="put the table into docs/project/limits.md")
    given = options.parse_args()
    print(f"seed {given.seed}", flush=True)
    every = scenarios(given.kills, given.trials, given.seed)
    chosen = [each for each in every if given.k in f"{each.group}: {each.name}"]
    ends = dict(_carried_out(chosen, given.at_once))
    rows = group_rows([(scenario.group, end) for scenario, end in ends.items()])
    if given.write:
        write_table(rows)
    words = [end.word for end in ends.values()]
    print(_summary(words))
    return 1 if set(words) - {OK} else 0


def _carried_out(chosen: list[Scenario], at_once: int) -> Iterator[tuple[Scenario, Verdict]]:
    with ProcessPoolExecutor(at_once, mp_context=get_context("spawn")) as pool:
        # A spawned process knows nothing of this module: what it is given to call lives in another.
        ends = pool.map(verdict, [each.carry_out for each in chosen])
        for each, end in zip(chosen, ends, strict=True):
            _show(each.name, end)
            yield each, end


def _show(name: str, end: Verdict) -> None:
    print(f"{name:60} {end.seconds:5.1f} s  {end.word}", flush=True)
    for each in end.reasons[:5]:
        print(f"    {each}", flush=True)


def _summary(words: list[str]) -> str:
    count = words.count(LOST)
    lost = f"{count} scenarios lost something" if count else "nothing was lost"
    slow = words.count(NO_VERDICT)
    return f"{lost}, {slow} without a verdict" if slow else lost


if __name__ == "__main__":
    sys.exit(main())

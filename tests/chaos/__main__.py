"""``python -m tests.chaos [--kills N] [--seed N] [-k WORD]``: a table with a verdict for each scenario.

The exit status is 1 where anything was lost, or where a run was twice too slow for a verdict. Took 121 s
on 2 quiet cores; what is printed beside each scenario is its time while another one ran.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from tests.chaos.hostile import INPUTS, run_beside
from tests.chaos.kills import killed, kills
from tests.chaos.surroundings import SURROUNDINGS
from tests.chaos.verdicts import LOST, NO_VERDICT, OK, Verdict, verdict


class Scenario(NamedTuple):
    """What is carried out in a folder of its own, and gives what went wrong."""

    name: str
    carry_out: Callable[[Path], list[str]]


def scenarios(count: int, trials: int, seed: int) -> Iterator[Scenario]:
    """Give every scenario."""
    for kill in kills(count, trials, seed):
        yield Scenario(str(kill), partial(killed, kill=kill, trials=trials))
    for given in INPUTS:
        yield Scenario(given.name, partial(run_beside, given=given))
    for each in SURROUNDINGS:
        yield Scenario(each.__name__.replace("_", " "), each)


def main() -> int:
    """Carry all out, some at once, each in a process of its own."""
    options = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--trials", type=int, default=200)
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options.add_argument("--at-once", type=int, default=2, help="so many scenarios at once (default: 2)")
    options.add_argument("-k", default="", help="only scenarios whose name has this in it")
    given = options.parse_args()
    print(f"seed {given.seed}", flush=True)
    began = time.monotonic()
    chosen = [each for each in scenarios(given.kills, given.trials, given.seed) if given.k in each.name]
    words: Counter[str] = Counter()
    with ProcessPoolExecutor(given.at_once, mp_context=get_context("spawn")) as pool:
        # A spawned process knows nothing of this module: what it is given to call lives in another.
        ends = pool.map(verdict, [each.carry_out for each in chosen])
        for each, end in zip(chosen, ends, strict=True):
            _show(each.name, end)
            words[end.word] += 1
    print(f"{_summary(words)} ({time.monotonic() - began:.0f} s)")
    return 1 if words.keys() - {OK} else 0


def _show(name: str, end: Verdict) -> None:
    print(f"{name:60} {end.seconds:5.1f} s  {end.word}", flush=True)
    for each in end.reasons[:5]:
        print(f"    {each}", flush=True)


def _summary(words: Counter[str]) -> str:
    lost = f"{words[LOST]} scenarios lost something" if words[LOST] else "nothing was lost"
    return f"{lost}, {words[NO_VERDICT]} without a verdict" if words[NO_VERDICT] else lost


if __name__ == "__main__":
    sys.exit(main())

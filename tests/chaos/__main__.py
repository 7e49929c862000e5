"""``python -m tests.chaos [--kills N] [--seed N] [-k WORD]``: a table with a verdict for each scenario.

The exit status is 1 where anything was lost. Takes about five minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.chaos.hostile import INPUTS, tried
from tests.chaos.kills import killed, kills
from tests.chaos.surroundings import SURROUNDINGS

Scenario = tuple[str, Callable[[Path], list[str]]]


def scenarios(count: int, trials: int, seed: int) -> Iterator[Scenario]:
    """Give every scenario with its name."""
    for kill in kills(count, trials, seed):
        yield str(kill), partial(killed, kill=kill, trials=trials)
    for given in INPUTS:
        yield given.name, partial(tried, given=given)
    for each in SURROUNDINGS:
        yield each.__name__.replace("_", " "), each


def main() -> int:
    """Carry all out, one after the other."""
    options = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--trials", type=int, default=200)
    options.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    options.add_argument("-k", default="", help="only scenarios whose name has this in it")
    given = options.parse_args()
    print(f"seed {given.seed}")
    lost = 0
    for name, scenario in scenarios(given.kills, given.trials, given.seed):
        if given.k in name:
            lost += bool(_carried_out(name, scenario))
    print(f"{lost} scenarios lost something" if lost else "nothing was lost")
    return 1 if lost else 0


def _carried_out(name: str, scenario: Callable[[Path], list[str]]) -> list[str]:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        try:
            wrong = scenario(Path(folder) / "project")
        except Exception as raised:
            wrong = [f"{type(raised).__name__}: {raised}"]
    print(f"{name:60} {time.monotonic() - began:5.1f} s  {'LOST' if wrong else 'ok'}", flush=True)
    for each in wrong[:5]:
        print(f"    {each}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())

"""Simulate everything, or what is named, and print a table: figure, goal, whether it holds."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

from tests.extended.simulations.rows import PATIENCE, Row

QUICK, FULL = 0.02, 1.0
Simulation = Callable[[float, int], Iterable[Row]]
"""``run(scale, seed)``: scale 1 is as many draws as the goals need; the same seed gives the same rows."""


def simulations() -> dict[str, Simulation]:
    """Give the modules of this folder that have a ``run``, by name."""
    here = Path(__file__).parent
    files = [path for path in sorted(here.glob("*.py")) if not path.stem.startswith(("__", "test_"))]
    modules = {path.stem: import_module(f"tests.extended.simulations.{path.stem}") for path in files}
    return {name: module.run for name, module in modules.items() if hasattr(module, "run")}


def main(arguments: Sequence[str]) -> int:
    """Simulate and print, row by row as it comes; give 1 if a goal is missed."""
    known = simulations()
    parser = argparse.ArgumentParser(prog="python -m tests.extended.simulations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="few draws")
    parser.add_argument("--seed", type=int, default=20261122)
    settings = parser.parse_args(arguments)
    unknown = [name for name in settings.names if name not in known]
    if unknown:
        parser.error(f"no simulation {unknown[0]!r}: there are {', '.join(known)}")
    scale = QUICK if settings.quick else FULL
    missed = 0
    print(f"{'':80} {'figure':>9}    {'goal':>9}")
    for name in settings.names or known:
        began = time.monotonic()
        for row in known[name](scale, settings.seed):
            missed += not row.holds()
            print(_line(row), flush=True)
        print(f"  {name}: {time.monotonic() - began:.1f} s", flush=True)
    return 1 if missed else 0


def _line(row: Row) -> str:
    room = f" ± {PATIENCE * row.error:.4f}" if row.error else ""
    verdict = "holds" if row.holds() else "MISSED"
    figures = f"{row.figure:9.4f} {row.relation} {row.goal:9.4f}{room}"
    return f"{row.what:80} {figures}  {verdict}  {row.note}".rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

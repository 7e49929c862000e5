"""Run frameworks under the plugin, each in an environment of its own, against a model on this machine.

    python -m tests.extended.frameworks                          all of them, newest and a year old
    python -m tests.extended.frameworks langgraph --newest       one, newest only
    python -m tests.extended.frameworks openai:responses         one way of one
    python -m tests.extended.frameworks --write                  all, and write docs/reference/frameworks.md

Environments and projects are kept below ``--place``; delete an environment's folder to have it made anew.
``docs/reference/frameworks.md`` lists what is checked.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.extended.frameworks.catalogue import BY_NAME, Case, Framework
from tests.extended.frameworks.environments import Environment, NotInstalled, environment
from tests.extended.frameworks.matrix import Matrix, cases
from tests.extended.frameworks.table import AGES, Notes, Row, write_page


def main() -> int:
    """Try what is named and print what came of it; give the exit status."""
    options = _parser().parse_args()
    unknown = [name for name in options.names if name.partition(":")[0] not in BY_NAME]
    if unknown:
        print(f"no such framework: {', '.join(unknown)} (there are {', '.join(BY_NAME)})")
        return 2
    ages = [age for age in AGES if getattr(options, age.replace("-", "_"))] or AGES
    matrix = Matrix(options.place / "projects", options.repetitions, options.repetitions_of_docs)
    bench = Bench(matrix, options.place / "venvs", Notes(options.place / "rows.json"))
    jobs = [
        (framework, age, tuple(way for way in ways if not way.lacks(age)))
        for framework, ways in _chosen(options.names)
        for age in ages
        if not framework.lacks(age)
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = [row for each in pool.map(lambda job: bench.rows(*job), jobs) for row in each]
    if options.write:
        write_page(bench.notes.rows())
    print(f"{sum(not row.faults for row in rows)} of {len(rows)} hold")
    return int(any(row.faults for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.extended.frameworks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME[:WAY]", help="frameworks (default: all)")
    for age in AGES:
        parser.add_argument(f"--{age}", action="store_true", help=f"only the {age} version")
    parser.add_argument("--jobs", type=int, default=1, help="frameworks at once (default: 1)")
    parser.add_argument("--repetitions", type=int, default=2, help="of each task (default: 2)")
    parser.add_argument("--repetitions-of-docs", type=int, default=10, help="the docs' example (default: 10)")
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "frameworks")
    parser.add_argument("--write", action="store_true", help="write docs/reference/frameworks.md")
    return parser


def _chosen(names: Sequence[str]) -> list[tuple[Framework, tuple[Case, ...]]]:
    chosen: dict[str, list[str]] = {}
    for name in names or BY_NAME:
        framework, _, way = name.partition(":")
        chosen.setdefault(framework, []).append(way)
    return [
        (BY_NAME[name], tuple(case for case in cases(BY_NAME[name]) if "" in ways or case.function in ways))
        for name, ways in chosen.items()
    ]


@dataclass(frozen=True, slots=True)
class Bench:
    """Where frameworks are tried, and what came of it is noted."""

    matrix: Matrix
    venvs: Path
    notes: Notes

    def rows(self, framework: Framework, age: str, ways: Sequence[Case]) -> list[Row]:
        """Try the ways of one framework in one age, one after the other."""
        try:
            installed = environment(framework, age, self.venvs)
        except (NotInstalled, subprocess.CalledProcessError) as error:
            why = str(getattr(error, "stderr", "") or error)
            row = Row(framework.name, age, ways[0].function, faults=(f"cannot be installed: {why[-300:]}",))
            return [self._noted(row)]
        return [self._noted(self._row(framework, age, installed, way)) for way in ways]

    def _row(self, framework: Framework, age: str, installed: Environment, way: Case) -> Row:
        result = self.matrix.try_case(framework, age, installed, way)
        facts = (installed.versions, installed.left_out, result.faults, result.trials, result.seconds)
        return Row(framework.name, age, way.function, *facts)

    def _noted(self, row: Row) -> Row:
        self.notes.add(row)
        verdict = "holds" if not row.faults else f"{len(row.faults)} faults"
        versions = " ".join(row.versions)
        print(
            f"{row.framework}:{row.way} ({row.age}: {versions}): {verdict}, {row.seconds:.0f} s", flush=True
        )
        for fault in row.faults[:6]:
            print(f"    {fault}", flush=True)
        return row


if __name__ == "__main__":
    sys.exit(main())

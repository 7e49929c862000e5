"""Run frameworks under the plugin, each in an environment of its own, against a model on this machine.

    python -m tests.frameworks                          all of them, newest and a year old
    python -m tests.frameworks langgraph --newest       one, newest only
    python -m tests.frameworks openai:responses         one way of one
    python -m tests.frameworks --write                  all, and docs/frameworks.md says what came of it

Environments and projects are kept below ``--place``; delete an environment's folder to have it made anew.
``docs/frameworks.md`` lists what is checked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.frameworks.catalogue import BY_NAME, Case, Framework
from tests.frameworks.environments import Environment, NotInstalled, environment
from tests.frameworks.matrix import Matrix, Result, cases
from tests.frameworks.table import Row, today, write_page

AGES = ("newest", "year-old")


def main() -> int:
    """Try what is named and print what came of it; give the exit status."""
    options = _parser().parse_args()
    unknown = [name for name in options.names if name.partition(":")[0] not in BY_NAME]
    if unknown:
        print(f"no such framework: {', '.join(unknown)} (there are {', '.join(BY_NAME)})")
        return 2
    ages = [age for age in AGES if getattr(options, age.replace("-", "_"))] or AGES
    matrix = Matrix(options.place / "projects", options.repetitions, options.repetitions_of_docs)
    jobs = [(framework, age, ways) for framework, ways in _chosen(options.names) for age in ages]
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda job: _row(matrix, options.place / "venvs", *job), jobs))
    if options.write:
        write_page(rows, options.place)
    print(f"{sum(not row.faults for row in rows)} of {len(rows)} hold")
    return int(any(row.faults for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.frameworks", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME[:WAY]", help="frameworks (default: all)")
    for age in AGES:
        parser.add_argument(f"--{age}", action="store_true", help=f"only the {age} version")
    parser.add_argument("--jobs", type=int, default=1, help="frameworks at once (default: 1)")
    parser.add_argument("--repetitions", type=int, default=2, help="of each task (default: 2)")
    parser.add_argument("--repetitions-of-docs", type=int, default=10, help="the docs' example (default: 10)")
    parser.add_argument("--place", type=Path, default=Path(tempfile.gettempdir()) / "frameworks")
    parser.add_argument("--write", action="store_true", help="write docs/frameworks.md")
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


def _row(matrix: Matrix, venvs: Path, framework: Framework, age: str, ways: Sequence[Case]) -> Row:
    try:
        installed = environment(framework, age, venvs)
    except NotInstalled as error:
        print(f"{framework.name} ({age}): cannot be installed: {error}", flush=True)
        return Row(framework.name, age, (), (), (), ("cannot be installed",), 0, 0.0, today())
    results = [_tried(matrix, framework, age, installed, case) for case in _possible(ways, installed)]
    return Row(
        framework.name,
        age,
        installed.versions,
        installed.left_out,
        tuple(result.case for result in results),
        tuple(f"{result.case}: {fault}" for result in results for fault in result.faults),
        sum(result.trials for result in results),
        sum(result.seconds for result in results),
        today(),
    )


def _possible(ways: Sequence[Case], installed: Environment) -> list[Case]:
    """Leave out the ways that need a package which the environment has to do without."""
    return [way for way in ways if way.needs not in installed.left_out]


def _tried(matrix: Matrix, framework: Framework, age: str, installed: Environment, case: Case) -> Result:
    result = matrix.try_case(framework, age, installed, case)
    versions = " ".join(installed.versions)
    verdict = "holds" if not result.faults else f"{len(result.faults)} faults"
    print(f"{framework.name}:{case.function} ({versions}): {verdict}, {result.seconds:.0f} s", flush=True)
    for fault in result.faults[:8]:
        print(f"    {fault}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())

"""Whole processes, timed from outside."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:rerunfailures")
UNUSED = ("-p", "no:hypothesispytest", "-p", "no:timeout", "-p", "no:anyio", "-p", "no:asyncio")


@dataclass(frozen=True)
class Taken:
    """What a process took: seconds on the wall, seconds of CPU of the whole process tree, MiB at its peak."""

    wall: float
    cpu: float
    peak: float
    output: str


def run(
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str] | None = None,
    *,
    expected: Sequence[int] = (0,),
) -> Taken:
    """Run a command and give what it took; it must end with an expected status."""
    before = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - before
    if os.waitstatus_to_exitcode(status) not in expected:
        raise SystemExit(f"{' '.join(command)} ended with {status}:\n{output[-2000:]}")
    return Taken(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output)


def pytest(
    folder: Path,
    *arguments: str,
    environ: Mapping[str, str] | None = None,
    expected: Sequence[int] = (0,),
) -> Taken:
    """Run pytest with as few other plugins as may be."""
    return run((*PYTEST, *UNUSED, *arguments), folder, environ, expected=expected)


def median(rounds: int, measure: Callable[[], float]) -> float:
    """Give the median of several measurements."""
    return statistics.median(measure() for _ in range(rounds))


def interleaved(rounds: int, *cases: Callable[[], Taken]) -> list[list[Taken]]:
    """Measure cases in turn, so that what else the machine does falls on all of them alike."""
    found: list[list[Taken]] = [[] for _ in cases]
    for _ in range(rounds):
        for case, results in zip(cases, found, strict=True):
            results.append(case())
    return found


def middle(taken: Sequence[Taken], figure: str) -> float:
    """Give the median of one figure."""
    return statistics.median(getattr(one, figure) for one in taken)

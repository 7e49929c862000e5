"""Whole processes, timed from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:rerunfailures")
UNUSED = (
    *("-p", "no:hypothesispytest", "-p", "no:timeout", "-p", "no:anyio", "-p", "no:asyncio"),
    *("-p", "no:socket"),
)
PATIENCE_S = 600
EXCLUDED_VARIABLES = ("GITHUB_", "AGENTEVAL_", "PYTEST_", "PYTHONDONTWRITEBYTECODE")
"""How variables begin that change what a program does, such as the summary that ours writes to on GitHub."""


class ProgramFailed(Exception):
    """A program ended with another status than it should have, or did less than it should have."""


@dataclass(frozen=True)
class Taken:
    """What a process took: seconds on the wall, seconds of CPU of the whole process tree, MiB at its peak."""

    wall: float
    cpu: float
    peak: float
    output: str
    figures: Mapping[str, float] = field(default_factory=dict)
    """What else was counted, such as by the server that it asked."""

    def figure(self, name: str) -> float:
        """Give one of its figures by name."""
        return self.figures[name] if name in self.figures else float(getattr(self, name))


def timed(
    command: Sequence[str], folder: Path, environ: Mapping[str, str] | None, expected: Sequence[int]
) -> Taken:
    """Run a command as somebody does who ran it before: with its byte code on the disk.

    Whatever would have it do more than that, on one side alone, is left out of its environment.
    """
    usual = {name: value for name, value in os.environ.items() if not name.startswith(EXCLUDED_VARIABLES)}
    environ = {**usual, **(environ or {})}
    before = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    hung = threading.Timer(PATIENCE_S, process.kill)
    hung.start()
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - before
    hung.cancel()
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in expected:
        raise ProgramFailed(f"{' '.join(command)} ended with {process.returncode}:\n{output[-2000:]}")
    return Taken(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, output)

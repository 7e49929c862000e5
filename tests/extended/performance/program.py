"""What is run and timed, and what it took round by round."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from tests.extended.performance.measuring import ProgramFailed, Taken, timed
from tests.extended.performance.rows import Series

Who: TypeAlias = Literal["ours", "floor", "peer"]
"""A floor is what everybody has: plain pytest, a bare loop. A peer may be missing, or fail."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command whose process is timed; ``before`` and ``after`` are not.

    Where ``passed`` is not 0, so many tests of pytest's must have passed, and no other may have been there: a
    capability trial that misses leaves the exit status 0.
    """

    command: tuple[str, ...]
    folder: Path
    who: Who
    environ: Mapping[str, str] = field(default_factory=dict)
    expected: tuple[int, ...] = (0,)
    before: Callable[[], object] = lambda: None
    after: Callable[[], Mapping[str, float]] = dict
    passed: int = 0

    def run(self) -> Taken:
        """Run it once."""
        self.before()
        taken = timed(self.command, self.folder, self.environ, self.expected)
        if self.passed and not re.search(rf"\b{self.passed} passed(, \d+ warnings?)? in ", taken.output):
            command, ended = " ".join(self.command), taken.output[-2000:]
            raise ProgramFailed(f"{command}: expected {self.passed} tests that passed, found:\n{ended}")
        return replace(taken, figures=self.after())


Programs: TypeAlias = Mapping[str, Program | str]
"""The programs of a case by name; in the place of one that cannot be run, the reason."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What each program took in each round."""

    taken: Mapping[str, list[Taken]]
    absent: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.taken or name in self.absent

    def each(self, name: str, figure: str) -> Series:
        """Give one figure of a program."""
        if name in self.absent:
            return Series(absent=self.absent[name])
        return Series(tuple(taken.figure(figure) for taken in self.taken[name]))


def carry_out(programs: Programs, rounds: int) -> Rounds:
    """Run all programs in turn, round after round.

    A peer that fails is left out from then on, and its reason stands instead.
    """
    absent = {name: each for name, each in programs.items() if isinstance(each, str)}
    taken: dict[str, list[Taken]] = {name: [] for name in programs if name not in absent}
    for number in range(rounds):
        for name, program in programs.items():
            if isinstance(program, str) or name in absent:
                continue
            try:
                taken[name].append(program.run())
            except ProgramFailed as failed:
                if program.who != "peer":
                    raise
                absent[name] = f"failed: {_reason(failed):.80}"
                continue
            _tell(f"{number + 1}/{rounds} {name}", taken[name][-1])
    return Rounds({name: each for name, each in taken.items() if name not in absent}, absent)


def _reason(failed: ProgramFailed) -> str:
    """Give the last line that names an error, else the last line."""
    lines = str(failed).splitlines()
    return next((line for line in reversed(lines) if "Error" in line), lines[-1])


def _tell(what: str, taken: Taken) -> None:
    line = f"  {what:50} {taken.wall:7.2f} s, {taken.cpu:7.2f} s of CPU, {taken.peak:5.0f} MiB"
    print(line, file=sys.stderr, flush=True)

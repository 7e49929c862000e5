"""This state of the sources beside an earlier one: every program of ours with both, in turn."""

from __future__ import annotations

import compileall
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.extended.performance.bench import ROOT, Bench, Case
from tests.extended.performance.measuring import ProgramFailed
from tests.extended.performance.page import lines
from tests.extended.performance.program import Program, Programs, Rounds, carry_out
from tests.extended.performance.rows import Series, amount

TITLES = ("program", "CPU before", "now", "now / before", "wall", "peak")
DEARER = 1.10


@dataclass(frozen=True, slots=True)
class Change:
    """What a program of ours took before and takes now; ``absent`` says why that is not known."""

    program: str
    before: Mapping[str, Series]
    now: Mapping[str, Series]
    absent: str = ""

    def over(self, figure: str) -> float:
        """Give now over before: the median of each round's own ratio."""
        return (self.now[figure] / self.before[figure]).median

    @property
    def dearer(self) -> bool:
        """Whether it costs a tenth more of CPU or memory; on the wall is what else the machine does, too."""
        return not self.absent and max(self.over("cpu"), self.over("peak")) > DEARER

    def cells(self) -> tuple[str, ...]:
        """Give the cells of its line."""
        if self.absent:
            return (self.program, "", "", self.absent, "", "")
        before, now = (amount(side["cpu"].median, "s") for side in (self.before, self.now))
        cpu, wall, peak = (f"{self.over(name):.2f} x" for name in ("cpu", "wall", "peak"))
        cpu, peak = (
            f"**{times}**" if self.over(name) > DEARER else times
            for name, times in (("cpu", cpu), ("peak", peak))
        )
        return (self.program, before, now, cpu, wall, peak)


def earlier(revision: str, place: Path) -> Path:
    """Lay the sources of a revision into a folder; give where they are."""
    command = ("git", "archive", "--format=tar", revision, "src")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"--against {revision}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(place, filter="data")
    return place / "src"


def changes(case: Case, before: Bench, now: Bench, most: int) -> Iterator[Change]:
    """Run what a case has of ours, with both, in turn."""
    for bench in (before, now):
        bench.place.mkdir(parents=True, exist_ok=True)
        compileall.compile_dir(str(bench.source), quiet=2)
    with ExitStack() as opened:
        try:
            old = _ours(opened.enter_context(case.programs(before)))
        except ProgramFailed as failed:
            print(f"  the earlier state cannot prepare this: {failed}", file=sys.stderr)
            old = {}
        new = _ours(opened.enter_context(case.programs(now)))
        both = {f"{word} {name}": each for name in new for word, each in _pair(name, old, new)}
        rounds = carry_out(both, min(case.rounds, most))
    for name in new:
        yield _change(name, rounds)


def _ours(programs: Programs) -> dict[str, Program | str]:
    return {name: each for name, each in programs.items() if isinstance(each, str) or each.who == "ours"}


def _pair(
    name: str, old: Mapping[str, Program | str], new: Mapping[str, Program | str]
) -> Iterator[tuple[str, Program | str]]:
    before = old.get(name, "not in the earlier state")
    # Whatever the earlier state cannot do yet is a row that says so.
    yield "before", before if isinstance(before, str) else replace(before, who="peer")
    yield "now", new[name]


def _change(name: str, rounds: Rounds) -> Change:
    before, now = (
        {figure: rounds.each(f"{word} {name}", figure) for figure in ("cpu", "wall", "peak")}
        for word in ("before", "now")
    )
    absent = before["cpu"].absent or now["cpu"].absent
    return Change(name, before, now, absent)


def table(found: list[Change]) -> str:
    """Give the changes in Markdown, and name what has become dearer."""
    dearer = [each.program for each in found if each.dearer]
    word = f"A tenth dearer or more: {', '.join(dearer)}." if dearer else "Nothing is a tenth dearer."
    return "\n".join([lines(TITLES, [each.cells() for each in found]), "", word])

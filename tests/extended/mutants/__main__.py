"""Break the package in many small ways, run the tests on each, and name what nobody noticed.

    python -m tests.extended.mutants                       100 mutants over the eight rooms, seed 1
    python -m tests.extended.mutants --room compare --count 40 --seed 7
    python -m tests.extended.mutants --replay FILE         those that lived, again

The package is broken in a copy, never here. A mutant is tried on the tests that are named after its
module, then on those of its room, then on the rest; the first test that fails, or a hang, kills it. A test
is believed when it fails on the mutant a second time and passes on the whole package. One that may
live (``survivors.yaml`` says why) counts as living untried.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from tests.extended.mutants.mutations import Mutation, mutations_of

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "src" / "pytest_agenteval"
SURVIVORS = Path(__file__).with_name("survivors.yaml")
ROOMS = ("compare", "engine", "session", "store", "cassettes", "chat", "tasks", "graders")
SLOW = ("tests/session", "tests/benchmarks", "tests/cli")
MOST_LIVING = 0.08
LONGEST_S = 1800


@dataclass(frozen=True)
class Mutant:
    """One mutation of one module; ``path`` is below the package."""

    path: str
    mutation: Mutation

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What it is known by however the module is moved about: its row, and the change."""
        change, text = self.mutation, (PACKAGE / self.path).read_text(encoding="utf-8")
        return self.path, text.splitlines()[change.line - 1].strip(), change.before, change.after

    def __str__(self) -> str:
        change = self.mutation
        return f"{self.path}:{change.line}: {_short(change.before)}  ->  {_short(change.after)}"


def _short(text: str) -> str:
    row = " ".join(text.split())
    return row if len(row) <= 70 else f"{row[:69]}…"


def sample(rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Draw mutants, as many from each room, each from a line of its own."""
    chance = random.Random(seed)
    drawn: list[Mutant] = []
    for number, room in enumerate(rooms):
        share = (count + number) // len(rooms)
        everywhere = list(_mutants_in(room))
        chance.shuffle(everywhere)
        lines = {(each.path, each.mutation.line): each for each in everywhere}
        drawn += list(lines.values())[:share]
    return drawn


def _mutants_in(room: str) -> Iterator[Mutant]:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        yield from (Mutant(name, each) for each in mutations_of(path.read_text(encoding="utf-8")))


def stages(path: str) -> Iterator[list[str]]:
    """Give the tests to try, the likeliest first: by the module's name, its folders from within, the rest."""
    mirrored = [ROOT / "tests" / folder for folder in Path(path).parents if folder.parts]
    folders = [folder for folder in mirrored if folder.is_dir()]
    if folders:
        stem = Path(path).stem.rstrip("s")
        near = [each for each in folders[-1].rglob("test_*.py") if stem in each.stem]
        if near:
            yield [each.relative_to(ROOT).as_posix() for each in near]
    yield from ([folder.relative_to(ROOT).as_posix()] for folder in folders)
    rest = [
        each.relative_to(ROOT).as_posix()
        for each in sorted((ROOT / "tests").iterdir())
        if each not in (*folders, ROOT / "tests" / "extended")
        and (each.name.startswith("test_") or any(each.rglob("test_*.py")))
    ]
    yield [name for name in rest if not _is_slow(name)]
    yield [name for name in rest if _is_slow(name) and "floors" not in name]


def _is_slow(name: str) -> bool:
    """Whether tests of a folder, or of no folder, mostly run pytest in pytest."""
    return name in SLOW or name.endswith(".py")


class Broken:
    """A copy of the package in which one module at a time is broken."""

    def __init__(self, place: Path, workers: str) -> None:
        self._copy = place
        self._workers = workers
        shutil.copytree(PACKAGE, place / "pytest_agenteval", ignore=shutil.ignore_patterns("__pycache__"))

    def killer_of(self, mutant: Mutant) -> str:
        """Give the test that kills a mutant, or an empty text where all pass."""
        unsound: list[str] = []
        for tests in stages(mutant.path):
            while killer := self._failure(mutant, [*tests, *(f"--deselect={name}" for name in unsound)]):
                if self._is_sound(killer, mutant):
                    return killer
                unsound.append(killer)
        return ""

    def _is_sound(self, killer: str, mutant: Mutant) -> bool:
        """A killer fails on the mutant each time and never on the whole package: else it was the machine."""
        if "::" not in killer:
            return True
        return bool(self._failure(mutant, [killer])) and not self._failure(None, [killer])

    def _failure(self, mutant: Mutant | None, tests: Sequence[str]) -> str:
        if mutant is None:
            return self._first_failure(tests)
        module = self._copy / "pytest_agenteval" / mutant.path
        whole = module.read_text(encoding="utf-8")
        module.write_text(mutant.mutation.applied_to(whole), encoding="utf-8")
        try:
            return self._first_failure(tests)
        finally:
            module.write_text(whole, encoding="utf-8")

    def _first_failure(self, tests: Sequence[str]) -> str:
        options = [
            "-q",
            "-x",
            "--tb=no",
            "-p",
            "no:cacheprovider",
            "--timeout=120",
            "-n",
            self._workers,
            "-rfE",
        ]
        places = os.pathsep.join([str(self._copy), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": places, "HYPOTHESIS_DATABASE": "none"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-m", "pytest", *options, *tests]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "a hang"
        if done.returncode in (0, 5):  # 5: no tests there
            return ""
        named = [row for row in done.stdout.splitlines() if row.startswith(("FAILED ", "ERROR "))]
        return named[0].split(" ", 1)[1].split(" - ")[0] if named else f"pytest ended with {done.returncode}"


def excuses() -> dict[tuple[str, str, str, str], str]:
    """Give the mutants that may live, and why: by module, row, text before and text after."""
    rows = yaml.safe_load(SURVIVORS.read_text(encoding="utf-8")) or []
    return {(row["path"], row["row"], row["before"], row["after"]): row["why"] for row in rows}


def stale(reasons: Iterable[tuple[str, str, str, str]]) -> Iterator[str]:
    """Name the reasons whose mutant is no more, as its row was changed."""
    for reason in reasons:
        everywhere = (
            Mutant(reason[0], each) for each in mutations_of((PACKAGE / reason[0]).read_text("utf-8"))
        )
        if all(each.place != reason for each in everywhere):
            yield f"{SURVIVORS.name} excuses what is no more: {reason[0]}: {reason[1]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants that were asked for; 1 where more live than may."""
    options = _options().parse_args(arguments)
    if options.replay:
        rows = json.loads(Path(options.replay).read_text(encoding="utf-8"))
        mutants = [Mutant(row["path"], Mutation(**row["mutation"])) for row in rows]
    else:
        mutants = sample(options.room or ROOMS, options.count, options.seed)
    reasons, living = excuses(), []
    print(*stale(reasons), sep="\n")
    with tempfile.TemporaryDirectory() as place:
        broken = Broken(Path(place), options.workers)
        for number, mutant in enumerate(mutants, 1):
            began = time.monotonic()
            why = reasons.get(mutant.place, "")
            killer = "" if why else broken.killer_of(mutant)
            if not killer:
                living.append(mutant)
            verdict = f"killed by {killer}" if killer else f"LIVES{': ' + why if why else ''}"
            print(f"{number:3} {mutant}\n      {time.monotonic() - began:.0f} s  {verdict}", flush=True)
    Path(options.living).parent.mkdir(parents=True, exist_ok=True)
    Path(options.living).write_text(json.dumps([asdict(each) for each in living], indent=1), encoding="utf-8")
    share = len(living) / max(len(mutants), 1)
    print(f"{len(living)} of {len(mutants)} live ({share:.0%}; at most {MOST_LIVING:.0%} may)")
    return int(share > MOST_LIVING)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.extended.mutants", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--room", action="append", choices=ROOMS, help="only this room; may be repeated")
    parser.add_argument("--count", type=int, default=100, help="how many in all (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--workers", default="0", help="pytest's -n (default 0)")
    parser.add_argument(
        "--living", default=".agenteval/living-mutants.json", help="where to write those that lived"
    )
    parser.add_argument("--replay", help="try the mutants of such a file again")
    return parser


if __name__ == "__main__":
    sys.exit(main())

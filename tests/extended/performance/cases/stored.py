"""What is done with runs that are there: graded again, gone on with, read; and what large ones hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.extended.performance import suites
from tests.extended.performance.bench import ROOT, SCRIPTED, Bench, Case
from tests.extended.performance.program import Program, Programs, Rounds
from tests.extended.performance.rows import Row, ratio
from tests.extended.performance.suites import other_run, write_table

MANY, MORE, MOST = 10_000, 50_000, 100_000
RECORDED = 8 * 91
CLONE = ROOT / ".." / "shared" / "data" / "ko-agentbench"
READERS_OF = {
    "report": ("report", "latest"),
    "show": ("show", "q777[scripted-1]"),
    "runs": ("runs",),
}


def _runs(folder: Path) -> list[str]:
    found = (folder / ".agenteval" / "runs").iterdir()
    return sorted(path.name for path in found if path.is_dir() and not path.is_symlink())


@contextmanager
def _regrading(bench: Bench) -> Iterator[Programs]:
    plain = suites.write(bench.place / f"plain_{RECORDED}", RECORDED, 100)
    yield {
        "plain items": bench.plain(plain, "test_plain.py"),
        "published": _published(bench) if CLONE.is_dir() else "needs a clone in ../shared",
        "scripted": _scripted(bench),
    }


def _published(bench: Bench) -> Program:
    """Give the regrading of the published runs of the Korean benchmark."""
    suite = bench.place / "ko"
    bench.verb(bench.place, "import", "ko-agentbench", str(CLONE), "--to", str(suite)).run()
    return bench.ours(suite, "evals", f"--agent-regrade={','.join(_runs(suite))}", expected=(0, 1))


def _scripted(bench: Bench) -> Program:
    """Give the regrading of a run of our own, in which each trial calls a tool."""
    suite = suites.write_calling(bench.place / "calling", 91)
    bench.ours(suite, "evals", SCRIPTED, "--repetitions=8").run()
    return bench.ours(suite, "evals", SCRIPTED, "--repetitions=8", f"--agent-regrade={_runs(suite)[0]}")


def _regrading_rows(rounds: Rounds) -> Iterator[Row]:
    plain = rounds.each("plain items", "wall")
    for name, what in (("published", "8 x 91 published trials"), ("scripted", "8 x 91 tool-calling trials")):
        yield ratio(f"regrading {what}: wall", rounds.each(name, "wall"), plain, "728 plain items", "s", 2.5)


@contextmanager
def _resuming(bench: Bench) -> Iterator[Programs]:
    folder = suites.write(bench.place / "resuming", MANY, 100)
    bench.ours(folder, "evals", SCRIPTED).run()
    yield {
        "pytest items": bench.plain(folder, "test_plain.py"),
        "resuming": bench.ours(folder, "evals", SCRIPTED, "--agent-resume"),
    }


def _resuming_rows(rounds: Rounds) -> Iterator[Row]:
    ours, plain = rounds.each("resuming", "wall"), rounds.each("pytest items", "wall")
    yield ratio("resuming 10,000 finished trials: wall", ours, plain, "10,000 plain items", "s", 1.15)


@contextmanager
def _memory(bench: Bench) -> Iterator[Programs]:
    sizes = {count: suites.write(bench.place / f"held_{count}", count, 100) for count in (MANY, MORE)}
    yield {
        f"{who} {count}": program
        for count, folder in sizes.items()
        for who, program in (
            ("plain", bench.plain(folder, "test_plain.py")),
            ("held", bench.ours(folder, "evals", SCRIPTED)),
        )
    }


def _memory_rows(rounds: Rounds) -> Iterator[Row]:
    few, many = (
        [rounds.each(f"{who} {count}", "peak") for who in ("held", "plain")] for count in (MANY, MORE)
    )
    yield ratio("50,000 trials: peak", many[0], many[1], "plain pytest", "MiB")
    each = [(more - less) / (MORE - MANY) * 1024 for more, less in zip(many, few, strict=True)]
    yield ratio("memory of a trial beyond 10,000", each[0], each[1], "plain item", "kB", 1.4)


@contextmanager
def _readers(bench: Bench) -> Iterator[Programs]:
    folder = write_table(bench.place / "read", MOST)
    bench.ours(folder, "evals", SCRIPTED).run()
    (newest,) = _runs(folder)
    programs = {name: bench.verb(folder, *arguments) for name, arguments in READERS_OF.items()}
    for program in programs.values():
        program.run()  # figures of a large run are stored when it is first listed
    other_run(folder / ".agenteval" / "runs" / newest)
    compare = bench.verb(folder, "compare", "2000", newest, expected=(0, 1))
    compare.run()
    plain = suites.write(bench.place / "read_beside", MANY, 100)
    yield {**programs, "compare": compare, "plain items": bench.plain(plain, "test_plain.py", passed=MANY)}


def _readers_rows(rounds: Rounds) -> Iterator[Row]:
    plain = rounds.each("plain items", "cpu")
    for name, what, goal in (
        ("report", "report of 100,000 trials: CPU", 0.15),
        ("show", "show of one trial among 100,000: CPU", 0.1),
        ("runs", "list of two runs of 100,000 trials: CPU", 0.15),
        ("compare", "compare of 2 x 100,000 trials: CPU", 0.4),
    ):
        yield ratio(what, rounds.each(name, "cpu"), plain, "10,000 plain items", "s", goal)


REGRADING = Case(5, _regrading, _regrading_rows)
RESUMING = Case(3, _resuming, _resuming_rows)
MEMORY = Case(1, _memory, _memory_rows)
READERS = Case(3, _readers, _readers_rows)

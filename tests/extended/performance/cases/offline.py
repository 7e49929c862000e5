"""Trials without a model: what an installed plugin, a first run and ten thousand trials cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tests.extended.performance import suites
from tests.extended.performance.bench import SCRIPTED, Bench, Case
from tests.extended.performance.program import Programs, Rounds
from tests.extended.performance.rows import Row, alone, beyond, ratio

MANY = 10_000
PEERS = {"inspect_ai": (400, 0.1), "pydantic-evals": (1_000, None), "deepeval": (1_000, None)} | {
    "pytest-evals": (1_000, 1.0)
}
"""How many each is given, the slow one fewer; and the goal: ours over theirs, of CPU for a trial."""


@contextmanager
def _unused(bench: Bench) -> Iterator[Programs]:
    folder = suites.write(bench.place / "unused", 1, 1)
    programs = {"pytest": bench.plain(folder, "test_plain.py"), "unused": bench.ours(folder, "test_plain.py")}
    yield {name: replace(program, passed=1) for name, program in programs.items()}


def _unused_rows(rounds: Rounds) -> Iterator[Row]:
    ours, plain = (rounds.each(name, "cpu") * 1000 for name in ("unused", "pytest"))
    yield beyond("installed and unused, one test: CPU", ours, plain, "plain pytest", "ms", 10)


@contextmanager
def _first(bench: Bench) -> Iterator[Programs]:
    folder = suites.write(bench.place / "first", 1, 1)
    plain = bench.plain(folder, "test_plain.py", passed=1)
    yield {"pytest": plain, "first": bench.ours(folder, "evals", SCRIPTED, passed=1)}


def _first_rows(rounds: Rounds) -> Iterator[Row]:
    for figure, word, goal in (("wall", "wall", 1.3), ("cpu", "CPU", None)):
        ours, plain = rounds.each("first", figure), rounds.each("pytest", figure)
        yield ratio(f"first run, one offline trial: {word}", ours, plain, "plain pytest, one test", "s", goal)


@contextmanager
def _trials(bench: Bench) -> Iterator[Programs]:
    sizes = {count: suites.write(bench.place / f"by_100_{count}", count, 100) for count in (1, 1_000, MANY)}
    alone = suites.write(bench.place / "by_1", MANY, 1)
    programs: dict[str, object] = {}
    for count in (1, MANY):
        programs[f"pytest {count}"] = bench.plain(sizes[count], "test_plain.py", passed=count)
    for count, folder in sizes.items():
        programs[f"ours {count}"] = bench.ours(folder, "evals", SCRIPTED, passed=count)
    programs["ours one per file"] = bench.ours(alone, "evals", SCRIPTED, passed=MANY)
    for name, (count, _) in PEERS.items():
        programs |= dict(bench.beside((name,), "offline", 1))
        programs |= dict(bench.beside((name,), "offline", count))
    yield programs  # type: ignore[misc]  # programs, or words


def _trials_rows(rounds: Rounds) -> Iterator[Row]:
    first, most = rounds.each("ours 1", "cpu"), rounds.each(f"ours {MANY}", "cpu")
    each = (most - first) / (MANY - 1) * 1000
    files = (rounds.each("ours one per file", "cpu") - first) / (MANY - 1) * 1000
    plain = (rounds.each(f"pytest {MANY}", "cpu") - rounds.each("pytest 1", "cpu")) / (MANY - 1) * 1000
    yield ratio("CPU per offline trial, journal on", each, plain, "plain item", "ms", 1.35)
    yield ratio("the same, one task per file", files, plain, "plain item", "ms", 1.7)
    for name, (count, goal) in PEERS.items():
        if f"{name} 1" in rounds:
            theirs = (rounds.each(f"{name} {count}", "cpu") - rounds.each(f"{name} 1", "cpu")) / (count - 1)
            yield ratio("CPU per offline trial, journal on", each, theirs * 1000, name, "ms", goal)
    thousand = (rounds.each("ours 1000", "cpu") - first) / 999 * 1000
    yield ratio("CPU per trial at 10,000", each, thousand, "ours at 1,000", "ms", 1.15)
    peak, least = (rounds.each(f"{who} {MANY}", "peak") for who in ("ours", "pytest"))
    yield alone("10,000 trials: peak", peak, "MiB", 140, f"plain pytest: {least.median:.0f} MiB")
    for name in PEERS:
        if f"{name} 1" in rounds:
            ours, theirs = rounds.each("ours 1", "wall"), rounds.each(f"{name} 1", "wall")
            yield ratio("first run, one offline trial: wall", ours, theirs, name)


@contextmanager
def _workers(bench: Bench) -> Iterator[Programs]:
    folder = suites.write(bench.place / "workers", MANY, 100)
    yield {
        "pytest -n 2": bench.plain(folder, "-n2", "test_plain.py", passed=MANY),
        "ours -n 2": bench.ours(folder, "-n2", "evals", SCRIPTED, passed=MANY),
    }


def _workers_rows(rounds: Rounds) -> Iterator[Row]:
    for figure, word, goal in (("wall", "wall", 1.12), ("cpu", "CPU", None)):
        ours, plain = rounds.each("ours -n 2", figure), rounds.each("pytest -n 2", figure)
        yield ratio(f"10,000 trials with -n 2: {word}", ours, plain, "plain pytest -n 2", "s", goal)


UNUSED = Case(15, _unused, _unused_rows)
FIRST = Case(15, _first, _first_rows)
TRIALS = Case(3, _trials, _trials_rows)
WORKERS = Case(3, _workers, _workers_rows)

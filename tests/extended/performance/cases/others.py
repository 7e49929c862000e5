"""What is measured only where it is named: pytest's own share, growth, waiting, addresses, large runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from tests.extended.performance import large_runs, loopback, suites
from tests.extended.performance.bench import ROOT, SCRIPTED, Bench
from tests.extended.performance.measuring import Taken, interleaved, middle, pytest
from tests.extended.performance.rows import Row


def floor(bench: Bench) -> Iterator[Row]:
    """Items of a plugin's own that do nothing at all: below this no trial can come, whatever it does."""
    place = bench.place
    bare = {per: suites.write_bare(place / f"bare_{per}", 10_000, per) for per in (100, 1)}
    one, plain = suites.write_bare(place / "bare", 1, 1), suites.write(place / "plain", 10_000, 100)
    alone = suites.write(place / "plain_1", 1, 1)
    first, first_plain, many_plain, hundreds, ones = interleaved(
        3,
        lambda: pytest(one, "-p", "no:agenteval"),
        lambda: pytest(alone, "test_plain.py"),
        lambda: pytest(plain, "test_plain.py"),
        lambda: pytest(bare[100], "-p", "no:agenteval"),
        lambda: pytest(bare[1], "-p", "no:agenteval"),
    )
    base = middle(many_plain, "cpu") - middle(first_plain, "cpu")
    for name, goal, taken in (("100 per file", 1.4, hundreds), ("one per file", 2.0, ones)):
        figure = (middle(taken, "cpu") - middle(first, "cpu")) / base
        yield Row(f"CPU per item that does nothing, {name}", figure, "x", goal, beside="plain item")


def many(bench: Bench) -> Iterator[Row]:
    """Five times as many trials take five times as much."""
    # Each is written right before it runs: a child's peak is never below what its parent held when it began.
    least, middling, most = (
        pytest(suites.write(bench.place / f"many_{size}", size, 100), "evals", SCRIPTED)
        for size in (1, 10_000, 50_000)
    )
    cpu = ((most.cpu - least.cpu) / 49_999) / ((middling.cpu - least.cpu) / 9_999)
    peak = ((most.peak - least.peak) / 49_999) / ((middling.peak - least.peak) / 9_999)
    beside = "ours at 10,000"
    yield Row("CPU per trial at 50,000", cpu, "x", 1.15, f"{most.wall:.0f} s", beside)
    yield Row("memory per trial at 50,000", peak, "x", 1.15, f"peak {most.peak:.0f} MiB", beside)


def cards(bench: Bench) -> Iterator[Row]:
    """A Card trial with its tree."""
    few, many = interleaved(3, lambda: _cards(2), lambda: _cards(12))
    each = 1000 * (middle(many, "cpu") - middle(few, "cpu")) / (10 * 25)
    yield Row("CPU per Card trial", each, "ms", 5, "oracle, with its workspace")


def _cards(repetitions: int) -> Taken:
    return pytest(
        ROOT, "evals/card", "--agent-model=oracle", f"--repetitions={repetitions}", "--agent-results=none"
    )


def thinking(bench: Bench) -> Iterator[Row]:
    """Trials that only wait, in one process."""
    folder = suites.write(bench.place / "thinking", 200, 100, seconds=0.2)
    taken = pytest(folder, "evals", SCRIPTED, "--agent-concurrency=32")
    ideal = math.ceil(200 / 32) * 0.2
    span = _span((folder / ".agenteval" / "runs" / "latest").resolve())
    yield Row(
        "200 x 0.2 s at 32, first start to last end",
        span / ideal,
        "x",
        1.15,
        f"{taken.wall:.2f} s",
        f"ideal: {ideal:.2f} s",
    )


def _span(run: Path) -> float:
    """Give the seconds from the first trial's start to the last one's end, as the run's journal has them."""
    from pytest_agenteval.store.run_reader import load_run

    entries = load_run(run).entries
    starts = [datetime.fromisoformat(entry.started_at).timestamp() for entry in entries]
    ends = [start + entry.seconds for start, entry in zip(starts, entries, strict=True)]
    return max(ends) - min(starts)


def addresses(bench: Bench) -> Iterator[Row]:
    """A call of a model with 100 kB by the address that a command has on this machine."""
    asked = loopback.overhead(Path(bench.place))
    beside = f"straight: {asked.straight:.2f} ms"
    for way in ("sent_on", "read", "recorded", "played"):
        figure = getattr(asked, way)
        what = f"100 kB by a trial's address, {way.replace('_', ' ')}"
        yield Row(what, figure - asked.straight, "ms", 5, f"{figure:.2f} ms", beside)


def large(bench: Bench) -> Iterator[Row]:
    """A hundred thousand trials: collected, held in memory, and read."""
    for what, figure, goal, unit, note in large_runs.figures(bench.place):
        yield Row(what, figure, unit, goal, note)

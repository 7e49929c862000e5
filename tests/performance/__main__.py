"""Measure everything, or what is named, and print a table: goal, figure, whether it holds."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.loopback.served import serving
from tests.performance import bare_loop, large_runs, loopback, measuring, suites
from tests.performance.measuring import interleaved, middle, pytest

ROOT = Path(__file__).parents[2]
SCRIPTED = "--agent-model=scripted"


class Row(NamedTuple):
    """One figure beside its goal."""

    what: str
    figure: float
    goal: float
    unit: str
    note: str = ""


def unused(place: Path) -> Iterator[Row]:
    """An installed plugin that nobody uses."""
    folder = suites.write(place / "unused", 1, 1)
    without, with_it = interleaved(
        15,
        lambda: pytest(folder, "-p", "no:agenteval", "test_plain.py"),
        lambda: pytest(folder, "test_plain.py"),
    )
    extra = 1000 * (middle(with_it, "wall") - middle(without, "wall"))
    yield Row("unused, over plain pytest", extra, 15, "ms", f"plain {1000 * middle(without, 'wall'):.0f} ms")


def first(place: Path) -> Iterator[Row]:
    """One offline trial beside one plain test: what somebody waits for who tries it once."""
    folder = suites.write(place / "first", 1, 1)
    plain, ours = interleaved(
        15,
        lambda: pytest(folder, "-p", "no:agenteval", "test_plain.py"),
        lambda: pytest(folder, "evals", SCRIPTED),
    )
    note = f"plain {1000 * middle(plain, 'wall'):.0f} ms, ours {1000 * middle(ours, 'wall'):.0f} ms"
    yield Row(
        "first run, one offline trial, wall",
        middle(ours, "wall") / middle(plain, "wall"),
        1.5,
        "x plain",
        note,
    )
    yield Row("first run, one offline trial, CPU", middle(ours, "cpu") / middle(plain, "cpu"), 1.5, "x plain")


def many(place: Path) -> Iterator[Row]:
    """Five times as many trials take five times as much."""
    # Each is written right before it runs: a child's peak is never below what its parent held when it began.
    least, middling, most = (
        pytest(suites.write(place / f"many_{size}", size, 100), "evals", SCRIPTED)
        for size in (1, 10_000, 50_000)
    )
    cpu = ((most.cpu - least.cpu) / 49_999) / ((middling.cpu - least.cpu) / 9_999)
    peak = ((most.peak - least.peak) / 49_999) / ((middling.peak - least.peak) / 9_999)
    yield Row("CPU per trial at 50,000 over 10,000", cpu, 1.15, "x", f"{most.wall:.0f} s")
    yield Row("memory per trial at 50,000 over 10,000", peak, 1.15, "x", f"peak {most.peak:.0f} MiB")


def trials(place: Path) -> Iterator[Row]:
    """One-turn offline trials beside plain parametrized tests, per item and beyond the first."""
    sizes = {size: suites.write(place / f"by_100_{size}", size, 100) for size in (1, 1_000, 10_000)}
    alone = suites.write(place / "by_1", 10_000, 1)
    plain, ours, files, grown = [], [], [], []
    peak = 0.0
    for _ in range(3):
        first_plain, first = pytest(sizes[1], "test_plain.py"), pytest(sizes[1], "evals", SCRIPTED)
        thousand = pytest(sizes[1_000], "evals", SCRIPTED)
        many_plain, many = pytest(sizes[10_000], "test_plain.py"), pytest(sizes[10_000], "evals", SCRIPTED)
        one_each = pytest(alone, "evals", SCRIPTED)
        base = (many_plain.cpu - first_plain.cpu) / 9_999
        plain.append(1000 * base)
        ours.append((many.cpu - first.cpu) / 9_999 / base)
        files.append((one_each.cpu - first.cpu) / 9_999 / base)
        grown.append(((many.cpu - first.cpu) / 9_999) / ((thousand.cpu - first.cpu) / 999))
        peak = max(peak, many.peak)
    note = f"plain {sorted(plain)[1]:.3f} ms"
    yield Row("CPU per trial, 10,000, 100 per file", sorted(ours)[1], 1.5, "x plain item", note)
    yield Row("CPU per trial, 10,000, one per file", sorted(files)[1], 2.0, "x plain item")
    yield Row("peak memory at 10,000", peak, 150, "MiB")
    yield Row("CPU per trial at 10,000 over 1,000", sorted(grown)[1], 1.15, "x")


def floor(place: Path) -> Iterator[Row]:
    """Items of a plugin's own that do nothing at all: below this no trial can come, whatever it does."""
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
    for name, goal, taken in (("100 per file", 1.5, hundreds), ("one per file", 2.0, ones)):
        ratio = (middle(taken, "cpu") - middle(first, "cpu")) / base
        yield Row(
            f"CPU per item that does nothing, {name}", ratio, goal, "x plain item", "pytest's own share"
        )


def workers(place: Path) -> Iterator[Row]:
    """The same under two workers."""
    folder = suites.write(place / "workers", 10_000, 100)
    plain, ours = interleaved(
        3, lambda: pytest(folder, "-n2", "test_plain.py"), lambda: pytest(folder, "-n2", "evals", SCRIPTED)
    )
    for figure, goal in (("wall", 1.15), ("cpu", 1.5)):
        ratio = middle(ours, figure) / middle(plain, figure)
        note = f"plain {middle(plain, figure):.1f} s"
        yield Row(
            f"10,000 trials with -n 2, {figure.replace('cpu', 'CPU')}", ratio, goal, "x plain -n 2", note
        )


def cards(place: Path) -> Iterator[Row]:
    """A Card trial with its tree."""
    few, many = interleaved(
        3,
        lambda: _cards(2),
        lambda: _cards(12),
    )
    each = 1000 * (middle(many, "cpu") - middle(few, "cpu")) / (10 * 25)
    yield Row("CPU per Card trial", each, 5, "ms", "oracle, with its workspace")


def _cards(repetitions: int) -> measuring.Taken:
    return pytest(
        ROOT, "evals/card", "--agent-model=oracle", f"--repetitions={repetitions}", "--agent-results=none"
    )


def thinking(place: Path) -> Iterator[Row]:
    """Trials that only wait, in one process."""
    folder = suites.write(place / "thinking", 200, 100, seconds=0.2)
    taken = pytest(folder, "evals", SCRIPTED, "--agent-concurrency=32")
    ideal = math.ceil(200 / 32) * 0.2
    spans = (place / "thinking" / ".agenteval" / "runs" / "latest").resolve()
    yield Row(
        "200 x 0.2 s at 32, first start to last end",
        bare_loop.span(spans) / ideal,
        1.15,
        "x ideal",
        f"wall {taken.wall:.2f} s",
    )


def litellm(place: Path) -> Iterator[Row]:
    """Trials against a server, beside a bare loop with the same client."""
    folder = suites.write(place / "litellm", 500, 100)
    with serving(latency_ms=200) as base:
        table = f'loop = {{id = "openai/loop", api_base = "{base}/v1"}}\n'
        (folder / "pyproject.toml").write_text(f"[tool.agenteval.models]\n{table}")
        (folder / "pytest.ini").unlink()
        bare, ours = interleaved(
            3,
            lambda: measuring.run((sys.executable, "-m", "tests.performance.bare_loop", f"{base}/v1"), ROOT),
            lambda: pytest(folder, "evals", "--agent-model=loop", "--agent-concurrency=64"),
        )
    ratio = middle(ours, "wall") / middle(bare, "wall")
    yield Row(
        "500 x 200 ms through litellm at 64, wall",
        ratio,
        1.25,
        "x bare loop",
        f"bare {middle(bare, 'wall'):.2f} s",
    )


def regrading(place: Path) -> Iterator[Row]:
    """Recorded trials of the Korean benchmark, graded again, and as many tests that do nothing."""
    clone = ROOT / ".." / "shared" / "data" / "ko-agentbench"
    if not clone.is_dir():
        print("regrading: needs a clone of the benchmark beside this project")
        return
    suite, plain = place / "ko", suites.write(place / "plain_728", 728, 100)
    agenteval = str(Path(sys.executable).with_name("agenteval"))
    measuring.run((agenteval, "import", "ko-agentbench", str(clone), "--to", str(suite)), place)
    runs = sorted((suite / ".agenteval" / "runs").glob("2*"))
    named = f"--agent-regrade={','.join(run.name for run in runs)}"
    without, with_it = interleaved(
        3, lambda: pytest(plain, "test_plain.py"), lambda: pytest(suite, "evals", named, expected=(0, 1))
    )
    walls = middle(without, "wall"), middle(with_it, "wall")
    note = f"728 tests that do nothing {walls[0]:.2f} s, the whole command {walls[1]:.2f} s"
    yield Row("regrading 8 x 91, beyond plain items, wall", walls[1] - walls[0], 3, "s", note)


def addresses(place: Path) -> Iterator[Row]:
    """A call of a model with 100 kB by the address that a command has on this machine."""
    asked = loopback.overhead(place)
    note = f"straight {asked.straight:.2f} ms"
    for way in ("sent_on", "read", "recorded", "played"):
        yield Row(f"100 kB by a trial's address, {way}", getattr(asked, way) - asked.straight, 5, "ms", note)


def large(place: Path) -> Iterator[Row]:
    """A hundred thousand trials: collected, held in memory, and read."""
    for figure in large_runs.figures(place):
        yield Row(*figure)


CASES: dict[str, Callable[[Path], Iterator[Row]]] = {
    "unused": unused,
    "first": first,
    "trials": trials,
    "floor": floor,
    "many": many,
    "workers": workers,
    "cards": cards,
    "thinking": thinking,
    "litellm": litellm,
    "regrading": regrading,
    "addresses": addresses,
    "large": large,
}


def main(names: list[str]) -> None:
    """Measure and print, row by row as it comes."""
    print(f"{'':48} {'figure':>9} {'goal':>7}")
    with tempfile.TemporaryDirectory() as place:
        for name in names or list(CASES):
            for row in CASES[name](Path(place)):
                holds = "holds" if row.figure <= row.goal else "MISSED"
                print(
                    f"{row.what:48} {row.figure:9.2f} {row.goal:7.2f} {row.unit:14} {holds}  {row.note}",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])

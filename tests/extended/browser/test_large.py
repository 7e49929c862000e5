"""2,000 trials of 25 kB: quick to open, quick to walk through, and small in memory.

A busy machine makes any one load slow, so times are those of the best of several.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.extended.browser.visit import Visit

Open = Callable[..., Visit]
LOADS = 8


def name(place: int) -> str:
    """Name a trial by its place in the run."""
    return f"s/task_{place // 4:03}[rules-{place % 4 + 1}]"


def opening(seen: Visit, place: int) -> float:
    """Open a trial, and give how many milliseconds the page took."""
    seen.get("performance.clearMeasures('trial-opened')")
    seen.go(f"#/t/{name(place).replace('/', '%2F')}")
    seen.until("performance.getEntriesByName('trial-opened').length")
    took: float = seen.get("performance.getEntriesByName('trial-opened').at(-1).duration")
    assert seen.count("#conversation .message") == 25
    return took


def test_the_table_is_usable_within_a_second(visit: Open, large: Path) -> None:
    """The script stands before the trials: nobody waits for 20 MB."""
    assert large.stat().st_size > 15_000_000
    times = []
    for _ in range(LOADS):
        seen = visit(large)
        times.append(seen.get("performance.getEntriesByName('list-usable')[0].startTime"))
        assert seen.count(".row.task") > 10
        if min(times) <= 1000:
            break
    print(f"usable after {min(times):.0f} ms")
    assert min(times) <= 1000


def test_a_trial_opens_within_half_a_second(visit: Open, large: Path) -> None:
    """Also one that stands at the end of the file, and one whose chunk has been forgotten."""
    seen = visit(large)
    seen.until("document.readyState === 'complete'")
    for place in (1, 1999, 1000, 500, 1500, 3):
        times = [opening(seen, other) for other in (place, place + 40 if place < 1000 else place - 40)]
        print(f"trial {place}: {min(times):.0f} ms")
        assert min(times) <= 500


def test_a_trial_can_be_opened_before_the_file_is_read(visit: Open, large: Path) -> None:
    """An address of the last trial waits for its part of the file."""
    seen = visit(large, f"#/t/{name(1999).replace('/', '%2F')}")
    seen.until("document.querySelectorAll('#conversation .message').length === 25")


def test_memory_stays_small(browser: Any, visit: Open, large: Path) -> None:
    """After 50 trials, 20 MB of JavaScript's own and 300 MB of the renderer."""
    seen = visit(large)
    seen.until("document.readyState === 'complete'")
    for place in range(0, 2000, 40):
        opening(seen, place)
    session = seen.context.new_cdp_session(seen.page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    heap, renderer = metrics["JSHeapUsedSize"] / 1e6, largest_renderer(browser)
    print(f"heap {heap:.1f} MB, renderer {renderer:.0f} MB")
    assert heap <= 20
    assert renderer <= 300


def largest_renderer(browser: Any) -> float:
    """Give the megabytes of the largest renderer; what it shares with others counts in part. Linux only."""
    if sys.platform != "linux":
        return 0.0
    processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return max(_megabytes(process["id"]) for process in processes if process["type"] == "renderer")


def _megabytes(process: int) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@pytest.mark.parametrize("words", ["bucket_07", "task_123"])
def test_filtering_is_quick(visit: Open, large: Path, words: str) -> None:
    """Each letter typed shows its rows within a few frames."""
    seen = visit(large)
    seen.until("document.readyState === 'complete'")
    times = []
    for _ in range(LOADS):
        seen.page.fill("#filter", "")
        before = seen.get("performance.now()")
        seen.page.fill("#filter", words)
        times.append(
            seen.until("document.querySelector('.status').textContent.includes(' of ') && performance.now()")
            - before
        )
    print(f"{words}: {min(times):.0f} ms")
    assert min(times) <= 200

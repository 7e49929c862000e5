"""2,000 trials of 25 kB, and 20,000 small ones: quick to open, to walk through and to search.

A busy machine makes any one load slow, so times are those of the best of several.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.extended.browser.sample_reports import large_report
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


def usable_after(visit: Open, report: Path) -> float:
    """Give after how many milliseconds the list of a report can be used, the best of several."""
    return min(
        visit(report).get("performance.getEntriesByName('list-usable')[0].startTime") for _ in range(LOADS)
    )


@pytest.fixture(scope="module")
def of_20000(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 5,000 tasks x 4."""
    return large_report(tmp_path_factory.mktemp("of_20000"), 20_000, 2000)


def test_20000_trials_are_usable_about_as_soon_as_3000(
    visit: Open, of_20000: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where a machine takes 1.5 s for 3,000 trials, it takes no more than 2.5 s for 20,000."""
    of_3000 = large_report(tmp_path_factory.mktemp("of_3000"), 3000, 2000)
    few, many = usable_after(visit, of_3000), usable_after(visit, of_20000)
    print(f"3,000 trials: usable after {few:.0f} ms; 20,000: {many:.0f} ms")
    assert many <= max(1, few / 1500) * 2500
    # Half of the rest is for the noise of machines that are faster than that.
    assert many <= 2.5 / 1.5 * few + 250


def test_20000_transcripts_are_searched_while_the_page_can_be_used(visit: Open, of_20000: Path) -> None:
    """Every one is looked at, none blocks the page for a second, and memory stays below 250 MB."""
    seen = visit(of_20000)
    seen.until("document.readyState === 'complete'")
    seen.get("""void (window.longest = 0, setInterval(function () {
        const now = performance.now();
        window.longest = Math.max(window.longest, now - (this.last ?? now));
        this.last = now;
    }.bind({}), 20))""")
    seen.go("#/?text=nothing-has-this")
    seen.until("performance.getEntriesByName('searched').length")
    took, longest = seen.get("[performance.getEntriesByName('searched')[0].duration, window.longest]")
    heap = heap_of(seen)
    print(f"20,000 transcripts: searched in {took:.0f} ms, blocked for {longest:.0f} ms, heap {heap:.0f} MB")
    assert "0 trials" in seen.get("document.querySelector('.searching').innerText")
    assert seen.get("document.querySelector('.status').innerText") == "0 of 5,000 tasks"
    assert longest < 1000
    assert heap < 250


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
    heap, renderer = heap_of(seen), largest_renderer(browser)
    print(f"heap {heap:.1f} MB, renderer {renderer:.0f} MB")
    assert heap <= 20
    assert renderer <= 300


def heap_of(seen: Visit) -> float:
    """Give the megabytes that a page's script holds on to."""
    session = seen.context.new_cdp_session(seen.page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["JSHeapUsedSize"]) / 1e6


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

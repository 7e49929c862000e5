"""``python -m tests.extended.performance.gates``: the CPU time that a request's turn at its gate takes."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from pytest_agenteval.chat.rate_limiter import RateLimiter, RateLimiters
from pytest_agenteval.chat.rate_shares import FileShares, RateLimits

REQUESTS = 20_000
PLAIN, COUNTED = RateLimits(), RateLimits(requests_per_minute=100_000_000, tokens_per_minute=10_000_000_000)


async def _ask(limiter: RateLimiter, requests: int, pause_s: float) -> None:
    for _ in range(requests):
        turn = await limiter.enter(100)
        if pause_s:
            await asyncio.sleep(pause_s)
        limiter.reply(turn, 300)


async def _seconds(
    limiters: RateLimiters, limits: RateLimits, requests: int, at_once: int, pause_s: float
) -> float:
    limiter = limiters.limiter("m", "m", limits)
    await _ask(limiter, 10, 0)
    began = time.process_time()
    await asyncio.gather(*(_ask(limiter, requests // at_once, pause_s) for _ in range(at_once)))
    taken = time.process_time() - began
    await limiters.close()
    return taken / requests


async def _bare(requests: int, at_once: int, pause_s: float) -> float:
    async def sleep() -> None:
        for _ in range(requests // at_once):
            await asyncio.sleep(pause_s)

    began = time.process_time()
    await asyncio.gather(*(sleep() for _ in range(at_once)))
    return (time.process_time() - began) / requests


def main() -> int:
    """Print what a request costs, in microseconds of processor time."""
    rows = (
        ("in memory, one after the other", False, PLAIN, REQUESTS, 1, 0.0),
        ("in memory, 10 at once", False, PLAIN, REQUESTS, 10, 0.0),
        ("in memory, 200 for 10 places, each 1 ms", False, PLAIN, REQUESTS, 200, 0.001),
        ("in memory, with limits per minute", False, COUNTED, REQUESTS, 10, 0.0),
        ("in a file, 10 at once, each 20 ms", True, PLAIN, 2000, 10, 0.02),
        ("in a file, one after the other, each 100 ms", True, PLAIN, 50, 1, 0.1),
        ("in a file, with limits per minute, each 20 ms", True, COUNTED, 2000, 10, 0.02),
    )
    for name, in_file, limits, requests, at_once, pause_s in rows:
        with tempfile.TemporaryDirectory() as folder:
            limiters = RateLimiters(FileShares(Path(folder) / "rates.json") if in_file else None, 10)
            bare = asyncio.run(_bare(requests, at_once, pause_s)) if pause_s else 0.0
            seconds = asyncio.run(_seconds(limiters, limits, requests, at_once, pause_s)) - bare
        print(f"{name:48} {1e6 * seconds:7.1f} µs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

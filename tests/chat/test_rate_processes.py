"""Processes that share a model by a file: none starves, and what a dead one held comes back."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Asks until it is ended, and writes the moments at which each request began and ended.
ASKER = """
import asyncio, sys, time
from pathlib import Path
from pytest_agenteval.chat.rate_limiter import RateLimiters
from pytest_agenteval.chat.rate_shares import FileShares, RateLimits

file, log, width, requests, seconds = sys.argv[1], open(sys.argv[2], "w"), *map(float, sys.argv[3:])
limiters = RateLimiters(FileShares(Path(file)), 50)
limiter = limiters.limiter("m", "m", RateLimits(at_once=int(width), at_start=int(width)))

async def ask():
    while True:
        turn = await limiter.enter()
        began = time.monotonic()
        await asyncio.sleep(seconds)
        print(began, time.monotonic(), file=log, flush=True)
        limiter.reply(turn)

async def main():
    await asyncio.gather(*(ask() for _ in range(int(requests))))

asyncio.run(main())
"""


@contextmanager
def asking(
    folder: Path, name: str, *, width: int = 4, requests: int = 50, seconds: float = 0.05
) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process ask with so many requests at once."""
    numbers = map(str, (width, requests, seconds))
    command = [sys.executable, "-c", ASKER, str(folder / "rates.json"), str(folder / name), *numbers]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def spans(file: Path) -> list[tuple[float, float]]:
    """Give when each request of a process began and ended."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(float(began), float(ended)) for began, ended in (line.split() for line in lines if " " in line)]


def wait_for(file: Path, requests: int) -> None:
    """Wait until a process has had so many replies."""
    end = time.monotonic() + 30
    while len(spans(file)) < requests:
        assert time.monotonic() < end, f"{file.name}: {len(spans(file))} of {requests} requests"
        time.sleep(0.02)


def test_what_a_killed_process_held_is_taken_back(tmp_path: Path) -> None:
    """It held every place; another goes on with them."""
    with asking(tmp_path, "first", seconds=3600) as first, asking(tmp_path, "second"):
        time.sleep(1.0)
        held = len(spans(tmp_path / "second"))
        first.kill()
        wait_for(tmp_path / "second", held + 10)

"""Requests wait for their place in turn, on whatever loop they are."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pytest_agenteval.records.limits import CrossLoopSemaphore


def test_no_more_are_in_than_there_are_places_whichever_loop_they_come_from() -> None:
    """Eight loops with ten requests each share three places, and all come to an end."""
    places, lock = CrossLoopSemaphore(3), threading.Lock()
    there, most, done = 0, 0, 0

    async def take() -> None:
        nonlocal there, most, done
        async with places:
            with lock:
                there += 1
                most = max(most, there)
            await asyncio.sleep(0.001)
            with lock:
                there, done = there - 1, done + 1

    async def many() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*(take() for _ in range(10)))

    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(lambda: asyncio.run(many())) for _ in range(8)]:
            each.result()

    assert (most, done) == (3, 80)


def test_who_gives_up_leaves_the_place_to_the_next() -> None:
    """Also when the place was just given to who gives up."""
    places = CrossLoopSemaphore(1)

    async def take() -> str:
        async with places:
            return "in"

    async def given_up(given_first: bool) -> str:
        await places.__aenter__()
        first, second = asyncio.create_task(take()), asyncio.create_task(take())
        await asyncio.sleep(0)
        if given_first:
            await places.__aexit__(None, None, None)
            first.cancel()
        else:
            first.cancel()
            await places.__aexit__(None, None, None)
        with pytest.raises(asyncio.CancelledError):
            await first
        return await asyncio.wait_for(second, 5)

    assert asyncio.run(given_up(True)) == asyncio.run(given_up(False)) == "in"

"""Requests get their places in turn, on whatever loop they are: of a rate limiter, or of a semaphore."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_agenteval.chat.rate_limiter import (
    BEAT_S,
    ExchangeThread,
    QueuedRequest,
    RateLimiter,
    RateLimiters,
)
from pytest_agenteval.chat.rate_shares import LimiterReport, ModelFailure, RateLimits, RateShare
from pytest_agenteval.records.limits import CrossLoopSemaphore
from pytest_agenteval.text.errors import ProviderDown


def limiter(at_once: int, **limits: float) -> RateLimiter:
    """Give a rate limiter with so many places from the beginning."""
    return RateLimiters().limiter("m", "m", RateLimits(at_once, at_once, **limits))


class Semaphore:
    """Places of a semaphore, entered and left as those of a rate limiter."""

    def __init__(self, places: int) -> None:
        self._semaphore = CrossLoopSemaphore(places)

    async def enter(self) -> bool:
        """Wait for a place."""
        await self._semaphore.__aenter__()
        return True

    def reply(self, turn: bool) -> None:
        """Give the place back; leaving waits for nothing."""
        with pytest.raises(StopIteration):
            self._semaphore.__aexit__(None, None, None).send(None)


in_turn = pytest.mark.parametrize("kind", [limiter, Semaphore])


@in_turn
def test_no_more_are_under_way_than_there_are_places_whichever_loop_they_come_from(kind: Any) -> None:
    """Eight loops with ten requests each share three places, and all come to an end."""
    places, lock = kind(3), threading.Lock()
    there, most, done = 0, 0, 0

    async def ask() -> None:
        nonlocal there, most, done
        turn = await places.enter()
        with lock:
            there += 1
            most = max(most, there)
        await asyncio.sleep(0.001)
        with lock:
            there, done = there - 1, done + 1
        places.reply(turn)

    async def many() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*(ask() for _ in range(10)))

    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(lambda: asyncio.run(many())) for _ in range(8)]:
            each.result()

    assert (most, done) == (3, 80)


@in_turn
@pytest.mark.parametrize("given_first", [True, False])
def test_who_gives_up_leaves_the_place_to_the_next(kind: Any, given_first: bool) -> None:
    """Also when the place was just given to who gives up."""
    places = kind(1)

    async def given_up() -> bool:
        turn = await places.enter()
        first, second = asyncio.create_task(places.enter()), asyncio.create_task(places.enter())
        await asyncio.sleep(0)
        if given_first:
            places.reply(turn)
            first.cancel()
        else:
            first.cancel()
            places.reply(turn)
        with pytest.raises(asyncio.CancelledError):
            await first
        return bool(await asyncio.wait_for(second, 5))

    assert asyncio.run(given_up())


def test_the_line_keeps_its_order_but_for_who_was_put_off() -> None:
    """A request that was sent already goes first."""
    places, order = limiter(1), []

    async def ask(name: str, *, first: bool = False) -> None:
        turn = await places.enter(first=first)
        order.append(name)
        places.reply(turn)

    async def all_of_them() -> None:
        turn = await places.enter()
        tasks = [asyncio.create_task(ask(name)) for name in "ab"]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(ask("again", first=True)))
        await asyncio.sleep(0)
        places.reply(turn)
        await asyncio.gather(*tasks)

    asyncio.run(all_of_them())
    assert order == ["again", "a", "b"]


def test_all_who_wait_are_told_that_a_model_is_gone() -> None:
    """And who comes later is told at once."""
    places = limiter(1)

    async def gone() -> list[BaseException | object]:
        turn = await places.enter()
        waiting = [asyncio.create_task(places.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        places.fail(turn, ModelFailure("auth", "m: no key", lasts=True))
        later = asyncio.create_task(places.enter())
        return await asyncio.gather(*waiting, later, return_exceptions=True)

    results = asyncio.run(gone())
    assert [str(each) for each in results] == ["m: no key"] * 4
    assert all(isinstance(each, ProviderDown) for each in results)


def test_a_limit_per_minute_is_waited_for_without_looking_all_the_time() -> None:
    """Two requests a second beyond the first: the third comes half a second after the second."""
    places = limiter(9, requests_per_minute=121)  # ten at once, then a little less than two a second

    async def ask_all() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(12):
            places.reply(await asyncio.wait_for(places.enter(), 10))
        return loop.time() - began

    assert 0.9 <= asyncio.run(ask_all()) < 5


class Shared:
    """A store that allows one start each time, and a clock that notes what is planned."""

    def __init__(self, *, local: bool, leaves: bool = False) -> None:
        self.reports: list[LimiterReport] = []
        self.planned: list[float] = []
        self.leaves = leaves
        report = LimiterReport("1.a", "m", "m", RateLimits())
        clock: ExchangeThread = self  # type: ignore[assignment]  # of which only plan is called
        self.limiter = RateLimiter("m", report, self, clock, local=local)

    def exchange(self, report: LimiterReport) -> RateShare:
        """Note a report; who waited has left meanwhile if ``leaves``."""
        self.reports.append(report)
        if self.leaves:
            self.limiter._waiting.clear()
        return RateShare(starts=1)

    def plan(self, limiter: RateLimiter, seconds: float) -> None:
        """Note when the next exchange is due."""
        self.planned.append(seconds)


@pytest.mark.parametrize("leaves", [False, True])
def test_a_start_that_nobody_wants_any_more_is_given_back(leaves: bool) -> None:
    """Its caller left while the report was under way; one that runs is reported now and then."""
    shared = Shared(local=False, leaves=leaves)
    shared.limiter._waiting.append(QueuedRequest(0, 1))
    shared.limiter.exchange()
    assert (shared.limiter.in_flight, shared.limiter.has_ended) == ((0, True) if leaves else (1, False))
    assert shared.planned == [0.0 if leaves else BEAT_S]


def test_a_reply_is_told_at_once_where_somebody_waits_for_it() -> None:
    """Here, or because the model is in trouble; else the next report has it."""
    shared = Shared(local=True)
    turn = asyncio.run(shared.limiter.enter())
    shared.limiter.reply(turn)
    assert len(shared.reports) == 1
    turn = asyncio.run(shared.limiter.enter())
    assert (shared.reports[-1].ended, shared.reports[-1].replied) == (1, 1)
    shared.limiter.share = RateShare(is_in_trouble=True)
    shared.limiter.reply(turn)
    assert shared.reports[-1].replied == 1
    assert len(shared.reports) == 3

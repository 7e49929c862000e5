"""Threads that a tool starts belong to its trial: what they ask is on its tape, or refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_agenteval.cassettes import Library
from pytest_agenteval.cassettes.http import NotRecorded, remove, taped_http
from pytest_agenteval.cassettes.http.scope import current
from pytest_agenteval.daemon import DaemonThreads
from tests.cassettes.http_server import Server, serving

urllib3 = pytest.importorskip("urllib3")

Run = Callable[[Callable[[], None]], Awaitable[None]]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that is really asked; afterwards other tests get their libraries back."""
    with serving() as started:
        yield started
    remove()


async def in_a_thread(function: Callable[[], None]) -> None:
    """Start a thread of one's own."""
    thread = threading.Thread(target=function)
    thread.start()
    await asyncio.to_thread(thread.join)


async def in_the_pool_of_the_loop(function: Callable[[], None]) -> None:
    """Give it to the loop's executor, as the loop of trials has one."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(DaemonThreads())
    await loop.run_in_executor(None, function)


async def in_a_pool(function: Callable[[], None]) -> None:
    """Give it to a pool of one's own."""
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, function)


@pytest.mark.parametrize("run", [in_a_thread, in_the_pool_of_the_loop, in_a_pool])
def test_a_thread_of_a_tool_asks_nobody_in_replay(tmp_path: Path, server: Server, run: Run) -> None:
    """However a tool comes by its thread: in ``none`` nothing leaves it, and the request is a miss."""
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            urllib3.request("GET", f"{server.base}/a")
        except NotRecorded as refused:
            raised.append(refused)

    async def tool() -> None:
        await run(ask)

    with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")) as scope:
        asyncio.run(tool())

    assert server.asked == []
    assert len(raised) == len(scope.missed) == 1


@pytest.mark.parametrize("pool_of", [DaemonThreads, lambda: ThreadPoolExecutor(1)], ids=["ours", "stock"])
def test_a_pool_s_thread_belongs_to_nobody(tmp_path: Path, pool_of: Callable[[], ThreadPoolExecutor]) -> None:
    """A thread that a pool started for one trial later serves whoever gives it work, also outside of all."""
    found: list[object] = []

    async def both() -> None:
        loop, pool = asyncio.get_running_loop(), pool_of()
        with taped_http(Library(tmp_path).open(Path("t.yaml"), "none", "tool")) as scope:
            await loop.run_in_executor(pool, lambda: found.append(current() is scope))
        await loop.run_in_executor(pool, lambda: found.append(current()))

    asyncio.run(both())
    remove()

    assert found == [True, None]

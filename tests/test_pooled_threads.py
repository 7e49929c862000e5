"""Threads that carry out one function after the other: as many as wait at once, and none knows another's."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time

import pytest

from pytest_agenteval import threads
from pytest_agenteval.threads import in_pooled_thread

PATIENCE_S = 10
CITY = contextvars.ContextVar("city", default="nowhere")


@pytest.fixture(autouse=True)
def _no_threads_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_unoccupied", [])


def ident() -> int:
    """Give the thread that this is carried out in."""
    return threading.get_ident()


def until_unoccupied(count: int) -> None:
    """Wait until so many threads have nothing to do."""
    until = time.monotonic() + PATIENCE_S
    while len(threads._unoccupied) != count and time.monotonic() < until:
        time.sleep(0.001)
    assert len(threads._unoccupied) == count


def test_one_function_after_the_other_takes_one_thread() -> None:
    """Each sees the context of who calls it; what one raises is raised there, and the thread goes on."""

    async def calls() -> set[int]:
        found = {await in_pooled_thread(ident)}
        until_unoccupied(1)
        with pytest.raises(ZeroDivisionError):
            await in_pooled_thread(lambda: 1 // 0)
        until_unoccupied(1)
        CITY.set("oslo")
        assert await in_pooled_thread(CITY.get) == "oslo"
        until_unoccupied(1)
        assert (
            await asyncio.create_task(in_pooled_thread(CITY.get), context=contextvars.Context()) == "nowhere"
        )
        until_unoccupied(1)
        return found | {await in_pooled_thread(ident)}

    assert len(asyncio.run(calls())) == 1


def test_functions_that_wait_for_one_another_have_threads_of_their_own() -> None:
    """However many they are: nothing waits for a free thread."""
    together = threading.Barrier(40)

    async def calls() -> list[int]:
        return await asyncio.gather(*(in_pooled_thread(together.wait, PATIENCE_S) for _ in range(40)))

    assert sorted(asyncio.run(calls())) == list(range(40))


def test_what_a_function_leaves_is_not_there_for_the_next() -> None:
    """A closed event loop of one tool is no loop of another; what one held is let go of."""

    def leave_a_loop() -> None:
        asyncio.set_event_loop(loop := asyncio.new_event_loop())
        loop.close()

    async def calls() -> None:
        await in_pooled_thread(leave_a_loop)
        until_unoccupied(1)
        with pytest.raises(RuntimeError, match="no current event loop"):
            await in_pooled_thread(asyncio.get_event_loop_policy().get_event_loop)

    asyncio.run(calls())


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ran tools for a while keeps no thread of them."""
    monkeypatch.setattr(threads, "IDLE_S", 0.01)

    async def calls() -> threading.Thread:
        return await in_pooled_thread(threading.current_thread)

    thread = asyncio.run(calls())
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert threads._unoccupied == []


@pytest.mark.posix
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_begins_threads_of_its_own() -> None:
    """Those of its parent are not there."""

    async def calls() -> int:
        return await asyncio.wait_for(in_pooled_thread(os.getpid), PATIENCE_S)

    asyncio.run(calls())
    until_unoccupied(1)
    child = os.fork()
    if not child:
        os._exit(0 if asyncio.run(calls()) == os.getpid() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

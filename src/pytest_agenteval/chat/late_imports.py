"""Libraries of chats that are imported when first needed, off the loop, once for all who wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pytest_agenteval.processes.threads import in_daemon_thread

_importing: dict[Callable[[], None], asyncio.Task[None]] = {}


async def import_off_loop(work: Callable[[], None]) -> None:
    """Wait until ``work`` has imported what it does, in a thread: who comes meanwhile waits for the same."""
    await asyncio.shield(_shared_import(work))


def _shared_import(work: Callable[[], None]) -> asyncio.Task[None]:
    loop, task = asyncio.get_running_loop(), _importing.get(work)
    if task is None or task.get_loop() is not loop:
        task = _importing[work] = loop.create_task(in_daemon_thread(work))
    return task

"""A loop in a thread of its own, for what has to go on while everybody else's loop does something else."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from pytest_agenteval.cassettes.http.patch_sockets import without_socket_guard

Returned = TypeVar("Returned")

CLOSING_S = 1.0
"""Seconds in which what is cancelled may come to its end."""


class LoopThread:
    """A loop in a thread that is started when something is first to be done there.

    The thread belongs to no trial; what is done there does, where it is given the context of one.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, Returned], context: contextvars.Context | None = None) -> Future[Returned]:
        """Have this done there, in a copy of the context, or in an empty one."""
        with self._starting:
            loop = self._loop or self._start()
        within = contextvars.Context() if context is None else context.copy()
        return within.run(asyncio.run_coroutine_threadsafe, work, loop)

    def _start(self) -> asyncio.AbstractEventLoop:
        with without_socket_guard():
            self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name=self._name, daemon=True)
        contextvars.Context().run(self._thread.start)
        return loop

    def close(self) -> None:
        """Cancel what is still done there, and end the thread; said again, it does nothing."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(_cancel_others(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=CLOSING_S)

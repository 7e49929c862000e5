"""Threads for many small pieces of work, of which any may turn out to be slow."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from pytest_agenteval.processes.threads import DaemonThread

PATIENCE = 0.02
"""Seconds that work waits behind other work before it gets a thread of its own."""


@dataclass(slots=True)
class _Job:
    """A piece of work, and who waits for it."""

    work: Callable[[], Any]
    future: asyncio.Future[Any]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    result: Any = None
    raised: BaseException | None = None

    def do(self) -> None:
        if self.future.cancelled():
            return
        try:
            self.result = self.context.run(self.work)
        except BaseException as raised:  # told to whoever waits
            self.raised = raised

    def settle(self) -> None:
        if self.future.done():
            return
        if self.raised is not None:
            self.future.set_exception(self.raised)
        else:
            self.future.set_result(self.result)


class BatchedThreads:
    """Does work in daemon threads: one while all work is quick, more when some of it is slow.

    Work that is given in the same turn of the loop goes to the thread together, and comes back together:
    changing threads costs more than most of the work. Belongs to one loop.
    """

    def __init__(self) -> None:
        self._new: list[_Job] = []
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._done: deque[_Job] = deque()
        self._open = 0
        self._first: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, work: Callable[[], Any]) -> Any:
        """Do the work and give what it gives; it sees the context variables of who asks."""
        self._loop = asyncio.get_running_loop()
        job = _Job(work, self._loop.create_future())
        if not self._new:
            self._loop.call_soon(self._send)
        self._new.append(job)
        return await job.future

    def close(self) -> None:
        """Let the threads go; work that never ends does not hold up the end of the process."""
        self._waiting.put(None)

    def _send(self) -> None:
        jobs, self._new = self._new, []
        if self._first is None:
            self._start()
        if not self._open and self._loop is not None:
            self._loop.call_later(PATIENCE, self._look_after)
        self._open += len(jobs)
        for job in jobs:
            self._waiting.put(job)

    def _look_after(self) -> None:
        """Give out what is done, and more threads to what still waits."""
        self._settle()
        for _ in range(self._waiting.qsize()):
            self._start()
        if self._open and self._loop is not None:
            self._loop.call_later(PATIENCE, self._look_after)

    def _start(self) -> None:
        # The newest is the one that stays: an older one may never come back.
        self._first = DaemonThread(self._serve, self._loop, "agenteval-graders")
        self._first.start()

    def _serve(self) -> None:
        job = self._next()
        while job is not None:
            job.do()
            self._done.append(job)
            if self._waiting.empty() and self._loop is not None:
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(self._settle)
            job = self._next()

    def _next(self) -> _Job | None:
        thread = threading.current_thread()
        if isinstance(thread, DaemonThread) and thread is self._first:
            return thread.next(self._waiting.get)
        try:
            return self._waiting.get_nowait()
        except Empty:
            return None

    def _settle(self) -> None:
        while self._done:
            self._open -= 1
            self._done.popleft().settle()

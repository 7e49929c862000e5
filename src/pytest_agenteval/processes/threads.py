"""Daemon threads for functions that wait, and what is closed after the last trial of a loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

THREAD_NAME = "agenteval-blocking"


class DaemonThread(threading.Thread):
    """A thread that works for an event loop, and does not hold up the end of the process."""

    def __init__(
        self, work: Callable[[], None], loop: asyncio.AbstractEventLoop | None, name: str = THREAD_NAME
    ) -> None:
        super().__init__(target=work, daemon=True, name=name)
        self.loop = loop
        self.busy = True

    def run(self) -> None:
        """Work until the work is done, or ``end_daemon_threads`` ends it."""
        with suppress(SystemExit):
            super().run()

    def next(self, get: Callable[[], T]) -> T:
        """Wait for the next piece of work; meanwhile the thread does not count as busy."""
        self.busy = False
        try:
            return get()
        finally:
            self.busy = True


def end_daemon_threads(loop: asyncio.AbstractEventLoop) -> None:
    """Raise SystemExit in each thread that is busy for this loop, as far as it runs Python code."""
    # Threads that nobody waits for would still take time of the interpreter from the end of the run.
    for thread in threading.enumerate():
        if isinstance(thread, DaemonThread) and thread.loop is loop and thread.busy:
            import ctypes

            ident = ctypes.c_ulong(thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(SystemExit))


async def in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Call the function in a daemon thread and return its result; context variables are passed on.

    Unlike with ``asyncio.to_thread``, a function that never returns does not keep the interpreter from
    exiting after ``-x`` or Ctrl-C.
    """
    return await start_in_daemon_thread(function, *args)


def start_in_daemon_thread(function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Call the function in a daemon thread; return a future of the running loop for its result."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(put: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            put(value)

    def body() -> None:
        put: Callable[[Any], None] = future.set_result
        try:
            value: Any = context.run(function, *args)
        except BaseException as raised:
            put, value = future.set_exception, acceptable_exception(raised)
        # Not ``future.set_result`` here: a future may only be used in its loop's thread. If the loop is
        # closed, nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, put, value)

    DaemonThread(body, loop).start()
    return future


async def on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine on a loop, from this loop or from another thread's."""
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


class DaemonThreads(ThreadPoolExecutor):
    """An executor for ``asyncio.to_thread``, whose threads then do not hold up the end either.

    A free thread takes the next function; a new one is started only if none is free.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__()
        self._loop = loop
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._free = threading.Semaphore(0)
        self._over = threading.Event()
        self._started = 0

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if self._over.is_set():
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()

        def body() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function(*args, **kwargs)
            except BaseException as raised:
                future.set_exception(acceptable_exception(raised))
            else:
                future.set_result(result)

        self._jobs.put(body)
        if not self._free.acquire(blocking=False):
            self._started += 1
            thread = DaemonThread(lambda: self._work(thread), self._loop)
            thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more work, and let idle threads end; nobody waits for the others."""
        self._over.set()
        for _ in range(self._started):
            self._jobs.put(None)

    def _work(self, thread: DaemonThread) -> None:
        while (job := thread.next(self._jobs.get)) is not None:
            job()
            self._free.release()


# Exceptions that a coroutine would take for its own end if another function raised them.
_OF_COROUTINES = (StopIteration, GeneratorExit, asyncio.CancelledError)


def acceptable_exception(raised: BaseException) -> BaseException:
    """Return the exception, or one in its place if it would end the awaiting code or let it wait for ever."""
    if not isinstance(raised, _OF_COROUTINES):
        return raised
    error = RuntimeError(f"the function raised {type(raised).__name__}")
    error.__cause__ = raised
    return error


_closers: dict[Callable[[], Awaitable[None]], None] = {}


def close_at_end(close: Callable[[], Awaitable[None]]) -> None:
    """Have ``close`` awaited after the last trial, on the trials' loop; once, however often it is added."""
    _closers[close] = None


async def close_clients() -> None:
    """Close whatever has been opened since the last call; one that raises does not stop the others."""
    raised: list[Exception] = []
    while _closers:
        close, _ = _closers.popitem()
        try:
            await close()
        except Exception as broken:
            raised.append(broken)
    if raised:
        raise raised[0]

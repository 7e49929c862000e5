"""Running a function that waits, on a thread that cannot hold up the end of the process."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Call the function in a daemon thread and give what it returns.

    Unlike ``asyncio.to_thread``, a function that never returns does not keep the interpreter from exiting after
    ``-x`` or Ctrl-C. Context variables travel along.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(put: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            put(value)

    def post(put: Callable[[Any], None], value: Any) -> None:
        try:
            loop.call_soon_threadsafe(settle, put, value)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    def body() -> None:
        try:
            result = context.run(function, *args)
        except BaseException as raised:
            post(future.set_exception, raised)
        else:
            post(future.set_result, result)

    threading.Thread(target=body, daemon=True, name="agenteval-blocking").start()
    return await future

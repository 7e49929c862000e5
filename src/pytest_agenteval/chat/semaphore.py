"""How many requests may be under way at once, whichever loops and threads they come from."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType


class CrossLoopSemaphore:
    """So many places, taken in the order in which they are asked for: ``async with places: ...``.

    An agent in a thread may ask on a loop of its own: asyncio's semaphore belongs to the first loop that
    waits for it, and is not for threads.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Take a place, as soon as there is one."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            self._give_up(turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the place to who has waited longest."""
        self._pass_on()

    def _give_up(self, turn: asyncio.Future[None]) -> None:
        """Wait no longer; a place that was given meanwhile goes to the next."""
        with self._lock:
            given = turn not in self._waiting
            if not given:
                self._waiting.remove(turn)
        if given:
            self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                    turn.get_loop().call_soon_threadsafe(_begin, turn)
                    return
            self._free += 1


def _begin(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)

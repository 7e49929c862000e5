"""When the loop of all trials stood still: no trial pays for what was done for another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

TICK_S = 0.05
LEAST_S = 0.05
"""A loop that comes to something later than this has been kept busy by somebody."""


class StallWatch:
    """Looks at the loop now and then while somebody acts on it, and tells how long it stood still.

    A huge reply that is read, thousands of calls that begin together: for as long as that takes nothing else
    goes on. Who is about to look at a clock looks here first: ``catch_up``. ``look`` is called each time.
    """

    def __init__(
        self, is_needed: Callable[[], bool], tell: Callable[[float], None], look: Callable[[], None]
    ) -> None:
        self._is_needed, self._tell, self._look_elsewhere = is_needed, tell, look
        self._due = self._excused = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def watch(self) -> None:
        """Begin to look, on the running loop; ends by itself when nobody acts on it any more."""
        if self._loop is None:
            self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
            self._look_later(self._loop)

    def excuse(self, seconds: float) -> None:
        """Leave out a time for which the loop is busy, and which is forgiven already."""
        self._excused += seconds

    def catch_up(self) -> None:
        """Tell of a standstill that has not been seen yet; on another thread than the loop's do nothing."""
        if self._loop is None or threading.get_ident() != self._thread:
            return
        self._look_elsewhere()
        now = self._loop.time()
        late_s = now - self._due - self._excused
        if late_s > LEAST_S:
            self._due, self._excused = now, 0.0
            self._tell(late_s)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due, self._excused = loop.time() + TICK_S, 0.0
        loop.call_at(self._due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self.catch_up()
        if self._is_needed():
            self._look_later(loop)
        else:
            self._loop = None

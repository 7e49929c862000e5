"""The first trial of an agent goes alone until its model has replied.

Much of what libraries do at first use is not made for several threads. They import then, and threads that
import each other's halves see modules half done; they build classes when these are needed (pydantic's
``defer_build``, as in OpenAI's client), and who comes in between finds none. Who serves one user after the
other never meets this; ten trials at once do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pytest_agenteval.records.recorder import Recorder

LONGEST_S = 5.0
"""So long others wait for the first, at most: its first reply may take a while, or never come."""

_LOOK_AGAIN_S = 0.02


class FirstUse:
    """The first trial of one agent in this process, for which others wait before their clocks start."""

    def __init__(self) -> None:
        self._first: Recorder | None = None
        self._until = 0.0
        self._is_over = False

    @asynccontextmanager
    async def turn(self, recorder: Recorder) -> AsyncIterator[None]:
        """Go on at once where nobody did before, else once the first has; ``recorder`` is the trial's."""
        if self._first is None:
            self._first, self._until = recorder, time.monotonic() + LONGEST_S
            try:
                yield
            finally:
                self._is_over = True
            return
        while not self._has_passed:
            await asyncio.sleep(_LOOK_AGAIN_S)
        yield

    @property
    def _has_passed(self) -> bool:
        """Whether the first has ended, has had its time, or asks again: then it has read a reply."""
        asks_again = self._first is not None and self._first.turn > 1
        self._is_over = self._is_over or asks_again or time.monotonic() > self._until
        return self._is_over

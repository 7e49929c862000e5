"""Telling an order to stop from what somebody's code let slip."""

from __future__ import annotations

import asyncio


def is_for_us(raised: BaseException) -> bool:
    """Whether an exception tells the running task to stop; else it is a mistake like any other."""
    if isinstance(raised, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(raised, GeneratorExit)

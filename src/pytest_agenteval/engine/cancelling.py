"""Telling a cancellation that is meant for us from one that somebody's code let slip."""

from __future__ import annotations

import asyncio


def being_cancelled() -> bool:
    """Whether the running task has been asked to stop; else a CancelledError is a mistake like any other."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

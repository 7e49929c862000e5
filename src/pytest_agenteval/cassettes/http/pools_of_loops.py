"""What a client's connections are kept in, for each event loop its own: a client may serve many loops.

A client that a module or a framework keeps for good is used by one trial after the other, each on a loop of
its own. A connection belongs to the loop that opened it, so each loop gets a copy of the client's pool,
empty at first, which ends with the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

_lasting: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


class _Copies(NamedTuple):
    """Copies that belong to one loop, by what they are copies of; ``closing`` closes them as it ends."""

    by_original: WeakKeyDictionary[Any, Any]
    closing: AsyncGenerator[None]


_copies: WeakKeyDictionary[asyncio.AbstractEventLoop, _Copies] = WeakKeyDictionary()


def share_pools(loop: asyncio.AbstractEventLoop) -> None:
    """Let clients use their own pools on this loop: it outlasts every trial."""
    _lasting.add(loop)


def is_shared(loop: asyncio.AbstractEventLoop | None) -> bool:
    """Whether a loop serves all trials."""
    return loop is not None and loop in _lasting


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Give the loop that runs in this thread, if there is one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def trial_loop() -> asyncio.AbstractEventLoop | None:
    """Give the running loop if it may end before its clients do; None on one that lasts, or on none."""
    loop = running_loop()
    return None if is_shared(loop) else loop


async def copy_of_loop(
    loop: asyncio.AbstractEventLoop,
    original: Any,
    make: Callable[[Any], Any],
    close: Callable[[Any], Awaitable[None]],
) -> Any:
    """Give this loop's copy of a client's pool, made when first asked for; it is closed as the loop ends."""
    held = _copies.get(loop)
    if held is None:
        by_original: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        held = _copies[loop] = _Copies(by_original, _until_loop_ends(loop, by_original))
        await anext(held.closing)
    copied = held.by_original.get(original)
    if copied is None:
        copied = held.by_original[original] = make(original), close
    return copied[0]


def drop_copy(original: Any) -> Any | None:
    """Forget the running loop's copy of a pool, and give it to be closed; None where there is none."""
    loop = trial_loop()
    held = None if loop is None else _copies.get(loop)
    copied = None if held is None else held.by_original.pop(original, None)
    return None if copied is None else copied[0]


async def _until_loop_ends(
    loop: asyncio.AbstractEventLoop, copies: WeakKeyDictionary[Any, Any]
) -> AsyncGenerator[None]:
    """Close the copies at the end: a loop that is shut down closes its generators."""
    try:
        yield
    finally:
        _copies.pop(loop, None)
        for copied, close in tuple(copies.values()):
            with suppress(Exception):  # one that cannot be closed keeps no other from it
                await close(copied)

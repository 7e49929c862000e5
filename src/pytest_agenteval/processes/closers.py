"""What is to be closed when a process has carried out its last trial, each told of where it was opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

_closers: dict[Callable[[], Awaitable[None]], None] = {}


def close_at_end(close: Callable[[], Awaitable[None]]) -> None:
    """Have this awaited at the end, once, on the loop of the trials; said twice it is awaited once."""
    _closers[close] = None


async def close_clients() -> None:
    """Close whatever has been opened since the last time; the first that raises keeps no other from it."""
    raised: list[Exception] = []
    while _closers:
        close, _ = _closers.popitem()
        try:
            await close()
        except Exception as broken:
            raised.append(broken)
    if raised:
        raise raised[0]

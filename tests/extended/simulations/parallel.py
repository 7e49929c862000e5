"""Simulations spread over processes: the same draws and figures, however many there are."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import TypeVar

PROCESSES = 2

T = TypeVar("T")


def in_parallel(simulate: Callable[..., T], arguments: Iterable[tuple[object, ...]]) -> list[T]:
    """Call a module's function with each of these arguments, in processes that give way to others."""
    futures = [_pool().submit(simulate, *each) for each in arguments]
    return [future.result() for future in futures]


@cache
def _pool() -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(PROCESSES, initializer=_give_way)
    atexit.register(pool.shutdown, cancel_futures=True)
    return pool


def _give_way() -> None:
    if hasattr(os, "nice"):
        os.nice(10)

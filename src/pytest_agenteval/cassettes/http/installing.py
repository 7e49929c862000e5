"""The one patch of the process, made when the first scope is opened."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from pytest_agenteval.cassettes.http import with_aiohttp, with_httpx, with_sockets, with_urllib, with_urllib3
from pytest_agenteval.cassettes.http.scope import current, untaped


class Patch(NamedTuple):
    """One function of a class: ours, and what it was."""

    owner: type
    name: str
    ours: Any
    real: Any


_lock = threading.Lock()
_patches: list[Patch] = []


def install() -> None:
    """Patch the libraries that are installed, once."""
    with _lock:
        if not _patches:
            for owner, name, make in _wanted():
                real = getattr(owner, name)
                _patches.append(Patch(owner, name, make(real), real))
            for patch in _patches:
                setattr(patch.owner, patch.name, patch.ours)


def remove() -> None:
    """Put back what was there, where nobody else has patched it since."""
    with _lock:
        while _patches:
            patch = _patches.pop()
            if getattr(patch.owner, patch.name) is patch.ours:
                setattr(patch.owner, patch.name, patch.real)


def _wanted() -> Iterator[tuple[type, str, Callable[[Any], Any]]]:
    for name, places in (
        ("httpx", with_httpx.places),
        ("httpx2", with_httpx.places),
        ("aiohttp", with_aiohttp.places),
        ("urllib3", with_urllib3.places),
        ("urllib.request", with_urllib.places),
        ("socket", with_sockets.places),
    ):
        with suppress(ImportError):
            yield from places(import_module(name))
    yield ThreadPoolExecutor, "submit", _submitting
    yield asyncio.BaseEventLoop, "run_in_executor", _running
    yield threading.Thread, "start", _starting


def _submitting(real: Any) -> Any:
    """Let threads of a pool know the scope of who gives them work, as asyncio.to_thread does.

    One that the pool starts for it does not belong to that scope: others will give it work.
    """

    def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return real(pool, function, *args, **kwargs)
        context = contextvars.copy_context()
        with untaped():
            return real(pool, context.run, function, *args, **kwargs)

    return submit


def _running(real: Any) -> Any:
    """Do so for a loop's pool, which may be of a class that submits in its own way."""

    def run_in_executor(loop: Any, executor: Any, function: Any, *args: Any) -> Any:
        if current() is None or not isinstance(executor, ThreadPoolExecutor | None):
            return real(loop, executor, function, *args)
        context = contextvars.copy_context()
        with untaped():
            return real(loop, executor, context.run, function, *args)

    return run_in_executor


def _starting(real: Any) -> Any:
    """Let a thread that user code starts itself belong to the scope in which it is started."""

    def start(thread: Any) -> None:
        if current() is not None:
            thread.run = partial(contextvars.copy_context().run, thread.run)
        real(thread)

    return start

"""The one patch of the process, made when the first scope is opened."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from pytest_agenteval.cassettes.http import with_aiohttp, with_httpx, with_urllib, with_urllib3
from pytest_agenteval.cassettes.http.scope import current


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
    ):
        with suppress(ImportError):
            yield from places(import_module(name))
    yield ThreadPoolExecutor, "submit", _carrying


def _carrying(real: Any) -> Any:
    """Let threads of a pool know the scope of who gives them work, as asyncio.to_thread does."""

    def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if current() is not None:
            args, function = (function, *args), contextvars.copy_context().run
        given: Future[Any] = real(pool, function, *args, **kwargs)
        return given

    return submit

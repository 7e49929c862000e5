"""The one patch of the process: each library is patched once it is imported, from the first scope on."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.cassettes.http import with_aiohttp, with_httpx, with_sockets, with_urllib, with_urllib3
from pytest_agenteval.cassettes.http.scope import NotRecorded, current, untaped

Places: TypeAlias = Iterator[tuple[Any, str, Callable[[Any], Any]]]
"""Owner and name of a function, and what makes ours of it."""


class Patch(NamedTuple):
    """One function of a class or module: ours, and what it was."""

    owner: Any
    name: str
    ours: Any
    real: Any


LIBRARIES: Mapping[str, Callable[[Any], Places]] = {
    "httpx": with_httpx.places,
    "httpx2": with_httpx.places,
    "aiohttp": with_aiohttp.places,
    "urllib3": with_urllib3.places,
    "urllib.request": with_urllib.places,
    "socket": with_sockets.places,
}

_lock = threading.Lock()
_patches: list[Patch] = []
_patched: list[ModuleType] = []


class _Awaiting(MetaPathFinder):
    """Sees libraries that are imported later: nobody pays for one that is never used."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find what the others find, and patch it once it is loaded."""
        if name not in LIBRARIES:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Patching(spec.loader)
                return spec
        return None


class _Patching(Loader):
    """Loads a library as its own loader does, and patches it."""

    def __init__(self, real: Loader) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the library's own loader."""
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Load the library, whose own loader is back in its place from now on, then patch it."""
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        with _lock:
            if _patches:
                _patch(module)


_awaiting = _Awaiting()


def install() -> None:
    """Patch the libraries that are imported, each once, and see to those that will be."""
    with_sockets.watch()
    if _awaiting not in sys.meta_path:
        sys.meta_path.insert(0, _awaiting)
    modules = list(_imported())
    with _lock:
        if not _patches:
            _put(_of_threads())
        for module in modules:
            _patch(module)
        for patch in _patches:
            if getattr(patch.owner, patch.name) is not patch.ours:
                setattr(patch.owner, patch.name, patch.ours)


def remove() -> None:
    """Put back what was there, where nobody else has patched it since."""
    with_sockets.look_away()
    with suppress(ValueError):
        sys.meta_path.remove(_awaiting)
    with _lock:
        _patched.clear()
        while _patches:
            patch = _patches.pop()
            if getattr(patch.owner, patch.name) is patch.ours:
                setattr(patch.owner, patch.name, patch.real)


def _imported() -> Iterator[ModuleType]:
    """Give the libraries that are imported, waiting for one that another thread is importing."""
    for name in LIBRARIES:
        if name in sys.modules:
            with suppress(ImportError):
                yield import_module(name)


def _patch(module: ModuleType) -> None:
    if not any(module is each for each in _patched):
        _patched.append(module)
        _put(LIBRARIES[module.__name__](module))


def _put(places: Places) -> None:
    for owner, name, make in places:
        real = getattr(owner, name)
        _patches.append(Patch(owner, name, make(real), real))
        setattr(owner, name, _patches[-1].ours)


def _of_threads() -> Places:
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
            thread.run = partial(_run, contextvars.copy_context(), thread.run)
        real(thread)

    return start


def _run(context: contextvars.Context, function: Callable[[], None]) -> None:
    with suppress(NotRecorded):  # the trial tells of it
        context.run(function)

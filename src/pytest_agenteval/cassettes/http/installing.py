"""The one patch of the process: each library is patched once it is imported, from the first scope on."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.cassettes.http import (
    with_aiohttp,
    with_http_client,
    with_httpx,
    with_queues,
    with_sockets,
    with_threads,
    with_urllib,
    with_urllib3,
)
from pytest_agenteval.cassettes.http.scope import current

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
    "http.client": with_http_client.places,
    "socket": with_sockets.places,
    "ssl": with_sockets.places_of_tls,
    "threading": with_threads.places,
    "_thread": with_threads.places_of_low_level,
    "queue": with_queues.places,
    "asyncio.queues": with_queues.places,
    "multiprocessing.pool": with_threads.places_of_pools,
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
        if name == "litellm" and current() is not None:  # else its import asks GitHub for a list of prices
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
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

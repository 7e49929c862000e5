"""The one patch of the process, and the scopes under it: each library is patched once it is imported."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pytest_agenteval.cassettes.http import patch_system, patch_threads
from pytest_agenteval.cassettes.http.patch_threads import PatchPoints
from pytest_agenteval.cassettes.http.scope import ModelTrafficHandler, Scope, current, scoped

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.request_matching import CallMatcher, ParamMatchers
    from pytest_agenteval.cassettes.tape import Tape

MakePoints: TypeAlias = Callable[[Any], PatchPoints]


class Patch(NamedTuple):
    """One function of a class or module: ours, and what it was."""

    owner: Any
    name: str
    ours: Any
    real: Any


# vcrpy's own patches are of no use here: it puts them in and takes them out for each cassette, for the whole
# process. Two cassettes that are open at once mix their requests, and the first one to be closed lets the
# requests of the other out.
LIBRARIES: Mapping[str, MakePoints | str] = {
    "httpx": "patch_httpx:patch_points",
    "httpx2": "patch_httpx:patch_points",
    "aiohttp": "patch_aiohttp:patch_points",
    "grpc": patch_system.grpc_patch_points,
    "urllib3": "patch_http_client:urllib3_patch_points",
    "urllib.request": "patch_http_client:urllib_patch_points",
    "http.client": "patch_http_client:client_patch_points",
    "socket": patch_system.socket_patch_points,
    "ssl": patch_system.tls_patch_points,
    "threading": patch_threads.thread_patch_points,
    "_thread": patch_threads.low_level_patch_points,
    "queue": patch_threads.queue_patch_points,
    "asyncio.queues": patch_threads.queue_patch_points,
    "multiprocessing.pool": patch_threads.pool_patch_points,
    "subprocess": patch_system.program_patch_points,
    "multiprocessing.process": patch_system.multiprocessing_patch_points,
}
"""Functions that give the patch points of a library; one named by a text is loaded once the library is."""

_lock = threading.Lock()
_patches: list[Patch] = []
_patched: dict[str, ModuleType] = {}


class _PatchFinder(MetaPathFinder):
    """Sees libraries that are imported later: nobody pays for one that is never used."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find what the other finders find, and patch it once it is loaded."""
        # Without this variable, litellm fetches its list of prices from GitHub while it is imported.
        if name == "litellm" and current() is not None:
            os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        if name not in LIBRARIES:
            return None
        if name == "httpx2":
            _import_httpx()
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _PatchLoader(spec.loader)
                return spec
        return None


class _PatchLoader(Loader):
    """Loads a library as its own loader does, and patches it."""

    def __init__(self, real: Loader) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From now on the library has its own loader, as any other module has.
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        make_points = _make_points(module.__name__)
        with _lock:
            # None means that ``remove`` was called meanwhile.
            if _patches:
                _patch(module, make_points)


_finder = _PatchFinder()


def install() -> None:
    """Patch the libraries that are imported, each once, and from now on those that are imported later."""
    patch_system.watch()
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    if "httpx2" in sys.modules:
        _import_httpx()
    # Imported before the lock is taken: another thread may hold the import lock of a module that a patch
    # needs, and wait for our lock.
    imported = []
    # Each trial comes by here, so what is patched already is passed over at once.
    for name in [name for name in LIBRARIES if sys.modules.get(name) is not _patched.get(name)]:
        if name in sys.modules:
            try:
                # This waits for a module that another thread is just importing.
                module = import_module(name)
            except ImportError:
                continue
            # Not in the ``try``: if a patch cannot be imported, requests would go past the tapes in silence.
            imported.append((module, _make_points(name)))
    with _lock:
        for module, make_points in imported:
            _patch(module, make_points)
        # Others may have put back what they found before us. A patch around ours stays, as instrumentations
        # such as OpenTelemetry's make one.
        for patch in [patch for patch in _patches if getattr(patch.owner, patch.name) is not patch.ours]:
            present = getattr(patch.owner, patch.name)
            while present is not None and present is not patch.ours:
                present = getattr(present, "__wrapped__", None)
            if present is None:
                setattr(patch.owner, patch.name, patch.ours)


def _import_httpx() -> None:
    """Import httpx beside httpx2, before any trial sends a request.

    OpenAI's client, which sends by httpx2, looks for httpx among the loaded modules at each reply. While
    another trial was just importing httpx, it found half a module, and the trial crashed.
    """
    if "httpx" not in sys.modules:
        import_module("httpx")


def remove() -> None:
    """Put back what was there, where nobody else has patched it since."""
    patch_system.stop_watching()
    with suppress(ValueError):
        sys.meta_path.remove(_finder)
    with _lock:
        _patched.clear()
        while _patches:
            patch = _patches.pop()
            if getattr(patch.owner, patch.name) is patch.ours:
                setattr(patch.owner, patch.name, patch.real)


def _make_points(library: str) -> MakePoints:
    points = LIBRARIES[library]
    if not isinstance(points, str):
        return points
    module, _, function = points.partition(":")
    make_points: MakePoints = getattr(import_module(f"{__package__}.{module}"), function)
    return make_points


def _patch(module: ModuleType, make_points: MakePoints) -> None:
    if _patched.get(module.__name__) is not module:
        _patched[module.__name__] = module
        for owner, name, make in make_points(module):
            real = getattr(owner, name)
            _patches.append(Patch(owner, name, make(real), real))
            setattr(owner, name, _patches[-1].ours)


@contextmanager
def taped_http(
    tape: Tape, matching: Mapping[str, Any] | ParamMatchers | None = None, *, shared: Sequence[Tape] = ()
) -> Iterator[Scope]:
    """Play every HTTP request made inside from the tape; if it records, send and record what it lacks.

    What is neither played nor may be sent raises NotRecorded where it is requested, and is in ``missed`` in
    case that is swallowed. ``matching`` are rules for the parameters of query and JSON body, by name; tapes
    that are ``shared`` are searched after the first, and never recorded into.

    Covered are httpx, aiohttp, urllib3 and with it requests, and urllib.request. They are patched once in a
    process, in what they send with, and never while a request is under way; which tape plays is read from a
    context variable. So any number of trials may be open at once, in tasks of one loop, in threads started
    inside, in functions given to a ThreadPoolExecutor, and none gets what is another's. vcrpy's own
    ``use_cassette`` patches and un-patches the classes of the process each time it is entered and left: of
    eight trials on one loop, one cassette held the requests of all and seven trials of a replay went to the
    network. Subprocesses are outside of every scope.
    """
    install()
    tapes = (tape, *shared)
    scope = Scope(lambda: tapes, lambda: _request_matcher(matching))
    with scoped(scope):
        yield scope


@contextmanager
def intercepted_requests(
    tapes: Callable[[], Sequence[Tape]],
    *,
    passing: bool = False,
    closing: bool = True,
    traffic: ModelTrafficHandler | None = None,
    ignored_hosts: Collection[str] = (),
    loopback: bool = False,
) -> Iterator[Scope]:
    """Play, record or refuse each request that is made inside, whoever makes it; ``passing`` lets it out.

    What asks models is the ``traffic``'s, if there is one. ``ignored_hosts`` (as ``*.sentry.io``) answer 204
    to every request, are never sent anything, and count for nothing. With ``loopback``, requests to this
    machine are sent where the tape holds no recording. The tapes are opened at the first request. At the end
    the scope is closed, if it is ``closing``: a thread that goes on dies at its next request. Else it lasts:
    it answers what no trial is known to ask.
    """
    install()
    scope = Scope(
        tapes,
        _request_matcher,
        passing=passing,
        traffic=traffic,
        ignored_hosts=tuple(ignored_hosts),
        loopback=loopback,
    )
    if closing:
        scope.accompany()
    try:
        with scoped(scope):
            yield scope
    finally:
        if closing:
            scope.close()
        else:
            scope.keep_open()


def _request_matcher(matching: Mapping[str, Any] | ParamMatchers | None = None) -> CallMatcher:
    """Compare requests by the rules of their parameters; of those that are no tool's, every one counts."""
    from pytest_agenteval.cassettes.request_matching import ParamMatchers, http_request_matcher

    matchers = matching if isinstance(matching, ParamMatchers) else ParamMatchers(matching or {})
    return http_request_matcher(matchers)

"""Threads, queues, and what is left for the end of the process: whose work it is, theirs are the requests.

Of queues the two methods are patched that a waiting ``get`` calls once there is something to give, with the
queue locked: so a worker is seen that has waited since before anything was patched.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.http.scope import (
    NothingSent,
    Scope,
    ScopeClosed,
    current,
    of_a_debugger,
    serve,
    start_serving,
    untaped,
    working_for,
)
from pytest_agenteval.text.errors import LimitIgnored, RequestRefused

PatchPoints: TypeAlias = Iterator[tuple[Any, str, Callable[[Any], Any]]]
"""Functions to patch: owner and name of each, and what makes our function of the real one."""


def thread_patch_points(threading: Any) -> PatchPoints:
    """Patch what takes functions for other threads: each runs in the scope of whoever hands it over."""
    # A thread that a pool starts for this work belongs to no trial: others will give it work too.
    yield ThreadPoolExecutor, "submit", _handing_over(_ScopedCall, 1, starts_outside=True)
    # For a loop's pool, whose class may have a ``submit`` of its own, which is not patched.
    run_in_executor = _handing_over(_ScopedCall, 2, starts_outside=True, applies=_to_threads)
    yield asyncio.BaseEventLoop, "run_in_executor", run_in_executor
    yield threading.Thread, "start", _patch_thread_start
    yield atexit, "register", _handing_over(_ExitCall, 0)


def low_level_patch_points(thread: Any) -> PatchPoints:
    # For code that starts threads without the class Thread.
    yield thread, "start_new_thread", _handing_over(_StartedThread, 0)


def pool_patch_points(pools: Any) -> PatchPoints:
    """Patch multiprocessing's pools of threads; its pools of processes are not covered."""
    yield pools.ThreadPool, "__init__", started_outside
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        yield pools.ThreadPool, name, _handing_over(_PoolTask, 1)


def started_outside(real: Any) -> Any:
    """Make something in no scope: a pool, whose threads work for many, or what reaches nobody else."""

    def make(*args: Any, **kwargs: Any) -> Any:
        with untaped():
            return real(*args, **kwargs)

    return make


def _to_threads(loop: Any, executor: Any, *_: Any) -> bool:
    return isinstance(executor, ThreadPoolExecutor | None)


def _handing_over(
    work: Callable[[Any], Any],
    at: int,
    *,
    starts_outside: bool = False,
    applies: Callable[..., bool] = lambda *_: True,
) -> Callable[[Any], Any]:
    """Patch a function whose argument ``at`` is a function: it is handed over as the ``work`` made of it."""

    def patched(real: Any) -> Any:
        def give(*args: Any, **kwargs: Any) -> Any:
            if current() is None or len(args) <= at or not applies(*args):
                return real(*args, **kwargs)
            given = work(args[at])
            with untaped() if starts_outside else nullcontext():
                result = real(*args[:at], given, *args[at + 1 :], **kwargs)
            # ``atexit.register`` gives the function back, so that it can be a decorator.
            return args[at] if result is given else result

        return give

    return patched


def _patch_thread_start(real: Any) -> Any:
    """Let a thread that user code starts itself belong to the scope in which it is started."""

    def start(thread: Any) -> None:
        if current() is not None and not of_a_debugger(thread):
            thread.run = _StartedThread(thread.run)
        real(thread)

    return start


class _ScopedCall:
    """A function that is called in the scope in which it was given, be it in several threads at once."""

    def __init__(self, function: Any) -> None:
        self._context, self._function, self._scope = contextvars.copy_context(), function, current()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with working_for(self._scope):
            # A context cannot be entered twice, and several threads may run this at once.
            return self._context.copy().run(self._work, *args, **kwargs)

    def _work(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)


class _PoolTask(_ScopedCall):
    """Does so in a pool whose thread dies of what is no Exception, so that the caller waits for ever."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except (LimitIgnored, RequestRefused, ScopeClosed) as refused:
            raise NothingSent(str(refused)) from None


class _ExitCall(_ScopedCall):
    """Does so where nobody catches what is raised, as at the end of the process, after the trial's.

    It is equal to its function, by which ``atexit.unregister`` finds it.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        # The trial itself reports refused requests and its limit. A traceback on standard error helps nobody.
        with suppress(RequestRefused, LimitIgnored, ScopeClosed):
            super().__call__(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self._function == other)

    __hash__ = _ScopedCall.__hash__


class _StartedThread(_ExitCall):
    """Does so in a thread of its own, which may work for other trials too."""

    def _work(self, *args: Any, **kwargs: Any) -> Any:
        start_serving()
        return super()._work(*args, **kwargs)


_GIVERS = "_agenteval_givers"

Givers: TypeAlias = dict[int, deque[tuple[Any, Scope | None]]]
"""Who put each item into a queue, by its ``id``; the item is held too, so that no other gets that id."""


def queue_patch_points(queue: Any) -> PatchPoints:
    """Patch queues of threads and of tasks; those that are last in, first out are pools, and hold no work."""
    for kind in (queue.Queue, queue.PriorityQueue):
        yield kind, "_put", _patch_queue_put
        yield kind, "_get", _patch_queue_get


def _patch_queue_put(real: Any) -> Any:
    def _put(queue: Any, item: Any) -> None:
        giver = current()
        givers: Givers = vars(queue).setdefault(_GIVERS, {})
        # The same object may lie in the queue already: then each of both needs its giver, even if it is None.
        if giver is not None or id(item) in givers:
            givers.setdefault(id(item), deque()).append((item, giver))
        real(queue, item)

    return _put


def _patch_queue_get(real: Any) -> Any:
    def _get(queue: Any) -> Any:
        item = real(queue)
        givers: Givers = vars(queue).get(_GIVERS, {})
        noted = givers.get(id(item))
        serve(noted.popleft()[1] if noted else None)
        if noted is not None and not noted:
            del givers[id(item)]
        return item

    return _get

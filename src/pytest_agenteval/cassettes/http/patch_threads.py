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
from contextlib import suppress
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


def thread_patch_points(threading: Any) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    yield ThreadPoolExecutor, "submit", _patch_submit
    yield asyncio.BaseEventLoop, "run_in_executor", _patch_run_in_executor
    yield threading.Thread, "start", _patch_thread_start
    yield atexit, "register", _patch_atexit_register


def low_level_patch_points(thread: Any) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    # For code that starts threads without the class Thread.
    yield thread, "start_new_thread", _patch_start_new_thread


def pool_patch_points(pools: Any) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Patch multiprocessing's pools of threads; its pools of processes are not covered."""
    yield pools.ThreadPool, "__init__", _patch_pool_init
    for name in ("apply_async", "_map_async", "imap", "imap_unordered"):
        yield pools.ThreadPool, name, _patch_pool_method


def _patch_submit(real: Any) -> Any:
    """Run the work of a pool in the scope of whoever submits it, as asyncio.to_thread does."""

    def submit(pool: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return real(pool, function, *args, **kwargs)
        work = _ScopedCall(contextvars.copy_context(), function)
        # A thread that the pool starts for this work belongs to no trial: others will give it work too.
        with untaped():
            return real(pool, work, *args, **kwargs)

    return submit


def _patch_run_in_executor(real: Any) -> Any:
    """Do so for a loop's pool, whose class may have a ``submit`` of its own, which is not patched."""

    def run_in_executor(loop: Any, executor: Any, function: Any, *args: Any) -> Any:
        if current() is None or not isinstance(executor, ThreadPoolExecutor | None):
            return real(loop, executor, function, *args)
        work = _ScopedCall(contextvars.copy_context(), function)
        with untaped():
            return real(loop, executor, work, *args)

    return run_in_executor


def _patch_pool_init(real: Any) -> Any:
    """Make a pool whose threads belong to no scope: whoever gives them work lends them one."""

    def __init__(pool: Any, *args: Any, **kwargs: Any) -> None:
        with untaped():
            real(pool, *args, **kwargs)

    return __init__


def _patch_pool_method(real: Any) -> Any:
    """Run the work of a pool of multiprocessing in the scope of its giver, in several threads at once."""

    def give(pool: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return real(pool, function, *args, **kwargs)
        return real(pool, _PoolTask(contextvars.copy_context(), function), *args, **kwargs)

    return give


def _patch_thread_start(real: Any) -> Any:
    """Let a thread that user code starts itself belong to the scope in which it is started."""

    def start(thread: Any) -> None:
        if current() is not None and not of_a_debugger(thread):
            thread.run = _ThreadTarget(contextvars.copy_context(), _serving_thread(thread.run))
        real(thread)

    return start


def _patch_start_new_thread(real: Any) -> Any:
    def start_new_thread(function: Any, args: Any, *kwargs: Any) -> Any:
        if current() is None:
            return real(function, args, *kwargs)
        return real(_ThreadTarget(contextvars.copy_context(), _serving_thread(function)), args, *kwargs)

    return start_new_thread


def _serving_thread(function: Any) -> Any:
    def started(*args: Any, **kwargs: Any) -> Any:
        start_serving()
        return function(*args, **kwargs)

    return started


def _patch_atexit_register(real: Any) -> Any:
    """Run what an agent registers for the end of the process in its trial, which has ended by then."""

    def register(function: Any, /, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return real(function, *args, **kwargs)
        real(_ExitCall(contextvars.copy_context(), function), *args, **kwargs)
        # As the real one does, so that it can be a decorator.
        return function

    return register


class _ScopedCall:
    """A function that is called in the scope in which it was given, be it in several threads at once."""

    def __init__(self, context: contextvars.Context, function: Any) -> None:
        self._context, self._function, self._scope = context, function, current()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with working_for(self._scope):
            # A context cannot be entered twice, and several threads may run this at once.
            return self._context.copy().run(self._function, *args, **kwargs)


class _PoolTask(_ScopedCall):
    """Does so in a pool whose thread dies of what is no Exception, so that the caller waits for ever."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except (LimitIgnored, RequestRefused, ScopeClosed) as refused:
            raise NothingSent(str(refused)) from None


class _ThreadTarget(_ScopedCall):
    """Does so where nobody catches what is raised."""

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        # The trial itself reports refused requests and its limit. A traceback on standard error helps nobody.
        with suppress(RequestRefused, LimitIgnored, ScopeClosed):
            super().__call__(*args, **kwargs)


class _ExitCall(_ThreadTarget):
    """Does so at the end of the process; equal to its function, by which ``atexit.unregister`` finds it."""

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self._function == other)

    __hash__ = _ScopedCall.__hash__


_GIVERS = "_agenteval_givers"

Givers: TypeAlias = dict[int, deque[tuple[Any, Scope | None]]]
"""Who put each item into a queue, by its ``id``; the item is held too, so that no other gets that id."""


def queue_patch_points(queue: Any) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
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

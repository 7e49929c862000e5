"""Queues: a thread or task that works one off makes the requests of whoever put the work there.

What is patched are the two methods that a waiting ``get`` calls once there is something to give, with the
queue locked: so a worker is seen that has waited since before anything was patched.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.http.scope import Scope, current, serve

_GIVERS = "_agenteval_givers"

Givers: TypeAlias = dict[int, deque[tuple[Any, Scope | None]]]
"""Who put what lies in a queue, by the identity of the work, which is held so that it stays the same."""


def places(queue: Any) -> Iterator[tuple[Any, str, Callable[[Any], Any]]]:
    """Say what is patched, of queues of threads and of tasks; what is last in, first out holds no work."""
    for kind in (queue.Queue, queue.PriorityQueue):
        yield kind, "_put", _putting
        yield kind, "_get", _getting


def _putting(real: Any) -> Any:
    def _put(queue: Any, item: Any) -> None:
        giver = current()
        givers: Givers = vars(queue).setdefault(_GIVERS, {})
        if giver is not None or id(item) in givers:
            givers.setdefault(id(item), deque()).append((item, giver))
        real(queue, item)

    return _put


def _getting(real: Any) -> Any:
    def _get(queue: Any) -> Any:
        item = real(queue)
        givers: Givers = vars(queue).get(_GIVERS, {})
        noted = givers.get(id(item))
        serve(noted.popleft()[1] if noted else None)
        if noted is not None and not noted:
            del givers[id(item)]
        return item

    return _get

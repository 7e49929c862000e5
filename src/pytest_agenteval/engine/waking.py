"""Lets an event loop be made where sockets are forbidden: it wakes itself through a pair of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_agenteval.sockets import true_class

_lock = threading.Lock()


@contextmanager
def unguarded_sockets() -> Iterator[None]:
    """Put Python's own socket class in its place for a moment, where a guard stands in for it.

    pytest-socket replaces the class during each test; the pair that wakes a loop reaches nobody else.
    """
    with _lock:
        guard = socket.socket
        setattr(socket, "socket", true_class(guard))  # noqa: B010 - a class, to the type checker
        try:
            yield
        finally:
            setattr(socket, "socket", guard)  # noqa: B010

"""Python's own class of sockets, also where somebody's guard stands in for it."""

from __future__ import annotations

import _socket
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def socket_class(guard: Any) -> Any:
    """Give the class that a guard was made from; the guard itself where that cannot be seen."""
    ancestors = getattr(guard, "__mro__", ())
    return next((each for each in ancestors if each.__bases__ == (_socket.socket,)), guard)


_lock = threading.Lock()


@contextmanager
def without_socket_guard() -> Iterator[None]:
    """Put Python's own socket class in its place for a moment, where a guard stands in for it.

    pytest-socket replaces the class during each test; the pair that wakes a loop reaches nobody else.
    """
    with _lock:
        guard = socket.socket
        setattr(socket, "socket", socket_class(guard))  # noqa: B010 - a class, to the type checker
        try:
            yield
        finally:
            setattr(socket, "socket", guard)  # noqa: B010

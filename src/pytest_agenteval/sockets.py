"""Python's own class of sockets, also where somebody's guard stands in for it."""

from __future__ import annotations

import _socket
from typing import Any


def true_class(guard: Any) -> Any:
    """Give the class that a guard was made from; the guard itself where that cannot be seen."""
    ancestors = getattr(guard, "__mro__", ())
    return next((each for each in ancestors if each.__bases__ == (_socket.socket,)), guard)

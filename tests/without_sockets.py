"""Run pytest in a process that cannot open a connection: python tests/without_sockets.py [arguments]."""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any, NoReturn

PAIRING = threading.local()
"""Whether this thread is making a pair of sockets."""


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for connecting: nothing may."""
    raise AssertionError(f"something tried to open a connection: {args[1:]}")


def leave_pairs() -> None:
    """Let pairs of connected sockets be made: asyncio wakes its loop through one.

    Without AF_UNIX (Windows) Python connects one socket to the other over loopback.
    """
    pair, connect = socket.socketpair, socket.socket.connect

    def socketpair(*args: Any, **kwargs: Any) -> Any:
        PAIRING.now = True
        try:
            return pair(*args, **kwargs)
        finally:
            PAIRING.now = False

    def connect_within(own: socket.socket, *args: Any) -> None:
        (connect if getattr(PAIRING, "now", False) else refuse)(own, *args)

    setattr(socket, "socketpair", socketpair)  # noqa: B010 - typed as a function of its own
    setattr(socket.socket, "connect", connect_within)  # noqa: B010


def main() -> int:
    """Block connections, then let pytest do as it was asked."""
    if not hasattr(socket, "AF_UNIX"):
        leave_pairs()
    else:
        setattr(socket.socket, "connect", refuse)  # noqa: B010
    for name in ("connect_ex", "sendto"):
        setattr(socket.socket, name, refuse)
    setattr(socket, "getaddrinfo", refuse)  # noqa: B010 - typed as a function that returns
    import pytest

    return int(pytest.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())

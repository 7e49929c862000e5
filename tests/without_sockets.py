"""Run pytest in a process that cannot open a connection: python tests/without_sockets.py [arguments]."""

from __future__ import annotations

import socket
import sys
from typing import Any, NoReturn


def refuse(*args: Any, **kwargs: Any) -> NoReturn:
    """Stand for connecting: nothing may."""
    raise AssertionError(f"something tried to open a connection: {args[1:]}")


def main() -> int:
    """Block connections, then let pytest do as it was asked."""
    # Pairs of connected sockets stay: asyncio wakes its loop through one.
    for name in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, name, refuse)
    setattr(socket, "getaddrinfo", refuse)  # noqa: B010 - typed as a function that returns
    import pytest

    return int(pytest.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())

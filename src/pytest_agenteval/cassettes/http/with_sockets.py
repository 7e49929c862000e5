"""Sockets: in a replay none is opened, whoever asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_agenteval.cassettes.http.scope import current
from pytest_agenteval.cassettes.interaction import Request


def places(module: Any) -> Iterator[tuple[type, str, Any]]:
    """Say what is patched."""
    for name in ("connect", "connect_ex"):
        yield module.socket, name, _connecting


def _connecting(real: Any) -> Any:
    def connect(socket: Any, address: Any, /) -> Any:
        scope = current()
        if scope is not None and not scope.live:
            raise scope.refusal(Request("CONNECT", _named(address)))
        return real(socket, address)

    return connect


def _named(address: Any) -> str:
    return f"socket://{address[0]}:{address[1]}" if isinstance(address, tuple) else f"socket://{address!s}"

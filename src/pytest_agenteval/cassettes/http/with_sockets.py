"""Sockets: in a replay none is connected, whoever asks for it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

from pytest_agenteval.cassettes.http.scope import answering, current, untaped
from pytest_agenteval.cassettes.interaction import Request

_EVENT, _WATCHERS = "socket.connect", "_agenteval_watching_connections"

Watcher = Callable[[Any, Any], None]


def watch() -> None:
    """Look at each connection that Python opens, before it is opened.

    By an audit hook, as guards of other people, pytest-socket's for one, put what they find in the class of
    sockets in place of what we would put there. A hook stays for the life of the process: there is one.
    """
    watchers: list[Watcher] | None = getattr(sys, _WATCHERS, None)
    if watchers is None:
        watchers = []
        setattr(sys, _WATCHERS, watchers)
        sys.addaudithook(_hook(watchers))
    if _refuse_in_replay not in watchers:
        watchers.append(_refuse_in_replay)


def look_away() -> None:
    """Look no more."""
    watchers: list[Watcher] = getattr(sys, _WATCHERS, [])
    if _refuse_in_replay in watchers:
        watchers.remove(_refuse_in_replay)


def places(module: Any) -> Iterator[tuple[Any, str, Any]]:
    """Say what is patched: where a pair of sockets is made by connecting one to the other."""
    if not hasattr(module, "AF_UNIX"):
        yield module, "socketpair", pairing


def pairing(real: Any) -> Any:
    """Make pairs, by which loops wake themselves and which reach nobody, in no scope."""

    def socketpair(*args: Any, **kwargs: Any) -> Any:
        with untaped():
            return real(*args, **kwargs)

    return socketpair


def _hook(watchers: list[Watcher]) -> Callable[[str, tuple[Any, ...]], None]:
    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == _EVENT:
            for watcher in tuple(watchers):
                watcher(*args)

    return hook


def _refuse_in_replay(connecting: Any, address: Any) -> None:
    if current() is None or _stays_here(connecting, address):
        return
    try:
        scope = answering()
        if scope is not None and not scope.live:
            raise scope.refusal(Request("CONNECT", _named(address)))
    except BaseException:
        connecting.close()  # who meant to connect it looks for failures of the system only
        raise


def _stays_here(connecting: Any, address: Any) -> bool:
    """Whether it is a process talking to its own children, or to the system's log."""
    if getattr(connecting, "family", None) != getattr(socket, "AF_UNIX", None):
        return False
    # So multiprocessing names what its managers and its fork server listen at.
    return connecting.type == socket.SOCK_DGRAM or "listener-" in _text(address)


def _named(address: Any) -> str:
    return (
        f"socket://{address[0]}:{address[1]}" if isinstance(address, tuple) else f"socket://{_text(address)}"
    )


def _text(address: Any) -> str:
    return address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)

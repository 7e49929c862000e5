"""Sockets: in a replay none is connected and nothing is sent on one, whoever asks for it."""

from __future__ import annotations

import _socket
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

from pytest_agenteval.cassettes.http.audit_events import Watchers
from pytest_agenteval.cassettes.http.scope import answering, current, is_own_address, of_nobody, untaped

_accepted: WeakSet[Any] = WeakSet()
"""Connections that somebody else opened, such as a process that an agent started: these it may answer."""


def patch_points(module: Any) -> Iterator[tuple[Any, str, Any]]:
    """Say what is patched: sending on what is connected, of which no hook tells."""
    if not hasattr(module, "AF_UNIX"):  # there a pair of sockets is made by connecting one to the other
        yield module, "socketpair", pairing
        return
    kind = socket_class(module.socket)
    yield kind, "accept", _patch_accept
    yield kind, "send", _patch_send
    yield kind, "sendall", _patch_send


def patch_points_of_tls(module: Any) -> Iterator[tuple[Any, str, Any]]:
    """Say what is patched of sockets that encrypt."""
    yield module.SSLSocket, "send", _patch_send


def pairing(real: Any) -> Any:
    """Make pairs, by which loops wake themselves and which reach nobody, in no scope."""

    def socketpair(*args: Any, **kwargs: Any) -> Any:
        with untaped():
            return real(*args, **kwargs)

    return socketpair


def _patch_accept(real: Any) -> Any:
    def accept(listening: Any) -> Any:
        connection, address = real(listening)
        _accepted.add(connection)
        return connection, address

    return accept


def _patch_send(real: Any) -> Any:
    def send(connection: Any, *args: Any) -> Any:
        if current() is not None or of_nobody():
            _refuse_sending(connection, None)
        return real(connection, *args)

    return send


def _in_replay(refuse: Callable[..., None]) -> Callable[..., None]:
    def refuse_in_replay(*args: Any) -> None:
        if current() is not None or of_nobody():
            refuse(*args)

    return refuse_in_replay


def _refuse_connecting(connecting: Any, address: Any) -> None:
    if _is_unix(connecting) and (
        # So multiprocessing names what its managers and its fork server listen at; or it is the system's log.
        connecting.type == socket.SOCK_DGRAM or "listener-" in _text(address)
    ):
        return
    uri = _uri_of(address)
    try:
        _refuse(uri)
    except BaseException:
        connecting.close()  # who meant to connect it looks for failures of the system only
        raise
    scope = answering()
    if scope is not None and connecting.type != socket.SOCK_DGRAM and not _is_own(uri):
        scope.note_connection(uri.removeprefix("socket://"))


def _refuse_sending(connection: Any, address: Any = None) -> None:
    """Refuse it on whatever was connected before, and without any connection."""
    if _is_unix(connection) or connection in _accepted:
        return
    if address is None:
        with suppress(OSError):
            address = connection.getpeername()
    _refuse(_uri_of(address))


def _refuse_looking_up(name: Any, port: Any = None, *_: Any) -> None:
    """Refuse to ask a server for the address of a name: that is a request too."""
    if name and not _is_here(_text(name)):
        _refuse(_uri_of((_text(name), port)))


def _refuse_naming(address: Any) -> None:
    """Refuse to ask a server for the name of an address, which stands in a pair with a port or alone."""
    host = _text(address[0] if isinstance(address, tuple) else address)
    if not _is_own_name(host) and not _is_loopback(host):
        _refuse(_uri_of((host, None)))


WATCHERS: Watchers = {
    "socket.connect": _in_replay(_refuse_connecting),
    "socket.sendto": _in_replay(_refuse_sending),
    "socket.sendmsg": _in_replay(_refuse_sending),
    "socket.getaddrinfo": _in_replay(_refuse_looking_up),
    "socket.gethostbyname": _in_replay(_refuse_looking_up),
    "socket.gethostbyaddr": _in_replay(_refuse_naming),
    "socket.getnameinfo": _in_replay(_refuse_naming),
}
"""Connections that Python opens, before they are opened, and names that it looks up."""


def _refuse(uri: str) -> None:
    scope = answering()
    if scope is not None and not scope.live and not _is_own(uri):
        from pytest_agenteval.cassettes.interaction import Request

        raise scope.refusal(Request("CONNECT", uri))


def _is_own(uri: str) -> bool:
    return is_own_address(f"http{uri.removeprefix('socket')}/")


def _is_here(name: str) -> bool:
    """Whether nobody has to be asked for the address of a name."""
    return _ip_address(name) is not None or _is_own_name(name)


def _is_loopback(name: str) -> bool:
    address = _ip_address(name)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _ip_address(name: str) -> Any:
    import ipaddress

    with suppress(ValueError):
        return ipaddress.ip_address(name.partition("%")[0])
    return None


def _is_own_name(name: str) -> bool:
    plain = name.lower().rstrip(".")
    return plain == "localhost" or plain.endswith(".localhost") or plain == socket.gethostname().lower()


def _is_unix(connection: Any) -> bool:
    return getattr(connection, "family", None) == getattr(socket, "AF_UNIX", None)


def _uri_of(address: Any) -> str:
    if not isinstance(address, tuple):
        return f"socket://{_text(address)}"
    host, port = address[:2]
    return f"socket://{_text(host)}" if port is None else f"socket://{_text(host)}:{port}"


def _text(address: Any) -> str:
    return address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)


def socket_class(guard: Any) -> Any:
    """Give the class that a guard was made from; the guard itself where that cannot be seen."""
    ancestors = getattr(guard, "__mro__", ())
    return next((ancestor for ancestor in ancestors if ancestor.__bases__ == (_socket.socket,)), guard)


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

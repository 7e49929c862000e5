"""Sockets, gRPC and programs: in a replay no connection is opened, and programs are noted for their trial.

Programs are not refused: many agents run ``git`` or ``ls``. One that still runs when its trial is over is
ended.
"""

from __future__ import annotations

import _socket
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import PurePath
from typing import Any, TypeAlias
from weakref import WeakSet

from pytest_agenteval.cassettes.http.patch_threads import PatchPoints, started_outside
from pytest_agenteval.cassettes.http.scope import (
    Scope,
    answering,
    current,
    is_own_address,
    of_nobody,
)
from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.processes.process_groups import FORK_EVENTS, kill_descendants
from pytest_agenteval.records.transcript import CHANGED_PROCESS, STARTED_PROGRAM
from pytest_agenteval.text.redaction import KNOWN_SECRETS

_TABLES = "_agenteval_audit_tables"

Watchers: TypeAlias = Mapping[str, Callable[..., None]]
"""Functions by the name of an audit event: each is called with its arguments, and forbids it by raising."""


def watch() -> None:
    """Have ``WATCHERS`` called at each of their events from now on."""
    # By an audit hook, and not by patching the class of sockets: guards such as pytest-socket replace what
    # stands there. Python cannot remove a hook, so the process has one, which finds its tables here.
    tables: list[Watchers] | None = getattr(sys, _TABLES, None)
    if tables is None:
        tables = []
        setattr(sys, _TABLES, tables)

        def hook(event: str, args: tuple[Any, ...]) -> None:
            # As short as it can be: Python calls it for every import and every file that is opened.
            for table in tables:
                if event in table:
                    table[event](*args)

        sys.addaudithook(hook)
    if WATCHERS not in tables:
        tables.append(WATCHERS)


def stop_watching() -> None:
    with suppress(AttributeError, ValueError):
        getattr(sys, _TABLES).remove(WATCHERS)


_accepted: WeakSet[Any] = WeakSet()
"""Connections that another process opened, such as one that an agent started: these may be answered."""


def socket_patch_points(module: Any) -> PatchPoints:
    """Patch sending on sockets that are connected already: it has no audit event."""
    # Without Unix sockets, as on Windows, a pair of sockets is made by connecting one to the other.
    if not hasattr(module, "AF_UNIX"):
        yield module, "socketpair", started_outside
        return
    kind = socket_class(module.socket)
    yield kind, "accept", _patch_accept
    yield kind, "send", _patch_send
    yield kind, "sendall", _patch_send


def tls_patch_points(module: Any) -> PatchPoints:
    # It overrides the plain socket's own, and ``sendall`` calls it.
    yield module.SSLSocket, "send", _patch_send


def _patch_accept(real: Any) -> Any:
    def accept(listening: Any) -> Any:
        connection, address = real(listening)
        _accepted.add(connection)
        return connection, address

    return accept


def _patch_send(real: Any) -> Any:
    def send(connection: Any, *args: Any) -> Any:
        _refuse_sent(connection)
        return real(connection, *args)

    return send


def _in_replay(refuse: Callable[..., None]) -> Callable[..., None]:
    def refuse_in_replay(*args: Any) -> None:
        if current() is not None or of_nobody():
            refuse(*args)

    return refuse_in_replay


def _refuse_connecting(connecting: Any, address: Any) -> None:
    if _is_unix(connecting) and (
        # Datagrams go to the system's log. The name is that of multiprocessing's managers and fork server.
        connecting.type == socket.SOCK_DGRAM or "listener-" in _address_text(address)
    ):
        return
    uri = _uri_of(address)
    try:
        _refuse(uri)
    except BaseException:
        # Closed here, as callers close it themselves after an OSError only.
        connecting.close()
        raise
    scope = answering()
    if scope is not None and connecting.type != socket.SOCK_DGRAM and not _is_own_uri(uri):
        scope.note_connection(uri.removeprefix("socket://"))


def _refuse_sending(connection: Any, address: Any = None) -> None:
    """Refuse to send on a socket that was connected before, or, with an address, on one that never was."""
    if _is_unix(connection) or connection in _accepted:
        return
    if address is None:
        with suppress(OSError):
            address = connection.getpeername()
    _refuse(_uri_of(address))


def _refuse_looking_up(name: Any, port: Any = None, *_: Any) -> None:
    """Refuse to ask a server for the address of a name: that is a request too."""
    if name and _ip_address(_address_text(name)) is None and not _is_own_name(_address_text(name)):
        _refuse(_uri_of((_address_text(name), port)))


def _refuse_naming(address: Any) -> None:
    """Refuse to ask a server for the name of an address, which stands in a pair with a port or alone."""
    host = _address_text(address[0] if isinstance(address, tuple) else address)
    if _is_own_name(host):
        return
    number = _ip_address(host)
    if number is None or not (number.is_loopback or number.is_unspecified):
        _refuse(_uri_of((host, None)))


_refuse_sent = _in_replay(_refuse_sending)


def _refuse(uri: str) -> None:
    scope = answering()
    if scope is not None and not (scope.live or _is_own_uri(uri) or scope.reaches(uri)):
        from pytest_agenteval.cassettes.interaction import Request

        raise scope.refusal(Request("CONNECT", uri))


def _is_own_uri(uri: str) -> bool:
    return is_own_address(f"http{uri.removeprefix('socket')}/")


def _ip_address(name: str) -> Any:
    import ipaddress

    # Behind the ``%`` an address of IPv6 names a network interface.
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
        return f"socket://{_address_text(address)}"
    host, port = address[:2]
    name = _address_text(host)
    name = f"[{name}]" if ":" in name else name
    return f"socket://{name}" if port is None else f"socket://{name}:{port}"


def _address_text(address: Any) -> str:
    return address.decode("utf-8", "replace") if isinstance(address, bytes) else str(address)


def socket_class(guard: Any) -> Any:
    """Give the class of sockets that a guard was made from; the guard itself if it has no such ancestor."""
    ancestors = getattr(guard, "__mro__", ())
    return next((ancestor for ancestor in ancestors if ancestor.__bases__ == (_socket.socket,)), guard)


_class_lock = threading.Lock()


@contextmanager
def without_socket_guard() -> Iterator[None]:
    """Put Python's own socket class in its place for a moment, where a guard stands in for it.

    pytest-socket replaces the class during each test; the pair that wakes a loop reaches nobody else.
    """
    with _class_lock:
        guard = socket.socket
        setattr(socket, "socket", socket_class(guard))  # noqa: B010 - a class, to the type checker
        try:
            yield
        finally:
            setattr(socket, "socket", guard)  # noqa: B010


_OURS = ("pytest_agenteval.",)
_SEEN_BEFORE = ("multiprocessing.", "subprocess")
"""Modules whose starts of processes are seen by patches of their own."""

_ABOUT_THE_MACHINE = ("platform", "uuid", "ctypes.util", "distro", "distro.distro", "sysconfig")
"""Modules that start ``uname`` and the like, as the first request of OpenAI's client makes them do."""

_POOLS = ("concurrent.", "multiprocessing.", "loky.", "joblib.")
"""Modules whose processes work for whoever gives them work next, which may be another trial."""


def program_patch_points(module: Any) -> PatchPoints:
    # asyncio starts its programs by this class too.
    yield module.Popen, "__init__", _patch_popen


def multiprocessing_patch_points(module: Any) -> PatchPoints:
    # multiprocessing starts Python by a function that has no audit event.
    yield module.BaseProcess, "start", _patch_process_start


def _patch_popen(real: Any) -> Any:
    def __init__(process: Any, args: Any, *rest: Any, **named: Any) -> None:
        # Programs of ours, and those that tell a client which system it runs on, are no doing of the agent.
        scope = None if _called_by(_OURS, 2) or _asks_about_the_machine() else current()
        if scope is not None and isinstance(named.get("env"), dict):
            KNOWN_SECRETS.know_environment(
                {_fs_text(name): _fs_text(it) for name, it in named["env"].items()}
            )
        real(process, args, *rest, **named)
        if scope is not None:
            _note_program(_first_word(args))
            scope.of_trial.at_close(partial(_end_process, process))

    return __init__


def _patch_process_start(real: Any) -> Any:
    def start(process: Any) -> None:
        scope, target = current(), getattr(process, "_target", None)
        real(process)
        if scope is None:
            return
        # A fork is a copy of this process, and has its patches: its requests are seen.
        if getattr(process, "_start_method", None) != "fork":
            _note_program("python (multiprocessing)")
        if not str(getattr(target, "__module__", "")).startswith(_POOLS):
            scope.of_trial.at_close(partial(_end_process, process))

    return start


def _end_process(process: Any) -> None:
    """End a process and its descendants, if it still runs."""
    running = process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()
    if running:
        with suppress(OSError, ValueError):
            kill_descendants(process.pid)
            process.kill()


def _note_program(program: str) -> None:
    if (scope := current()) is not None:
        scope.note(STARTED_PROGRAM, PurePath(program).name or program)


def _note_spawn(path: Any = "fork", *_: Any) -> None:
    if not _called_by(_SEEN_BEFORE, 3):
        _note_program(_fs_text(path))


# Set by pytest itself, four times for each test.
_CURRENT_TEST = os.fsencode("PYTEST_CURRENT_TEST") if POSIX else "PYTEST_CURRENT_TEST"


def _note_variable(name: Any, value: Any = None) -> None:
    if name == _CURRENT_TEST:
        return
    key, new = _fs_text(name), None if value is None else _fs_text(value)
    # Registered at once: the variable may be gone before anything is written that holds its value.
    if new is not None:
        KNOWN_SECRETS.know_environment({key: new})
    if os.environ.get(key) != new:
        _note_change(f"os.environ[{key!r}]")


def _note_folder(path: Any) -> None:
    with suppress(OSError):
        if not isinstance(path, int) and not os.path.samefile(path, os.getcwd()):
            _note_change("os.chdir")


_changes: Counter[str] = Counter()


def _note_change(what: str) -> None:
    """Note a change of the process that other trials see."""
    # Only from the second time on: what is set once is the same for all trials. And not while a module is
    # imported, which happens once for all of them too.
    scope: Scope | None = current()
    if scope is None or _is_importing():
        return
    _changes[what] += 1
    if _changes[what] > 1 and scope.of_trial.accompanied:
        scope.note(CHANGED_PROCESS, what)


WATCHERS: Watchers = {
    # Connections that Python opens, before they are opened, and names that it looks up.
    "socket.connect": _in_replay(_refuse_connecting),
    "socket.sendto": _refuse_sent,
    "socket.sendmsg": _refuse_sent,
    "socket.getaddrinfo": _in_replay(_refuse_looking_up),
    "socket.gethostbyname": _in_replay(_refuse_looking_up),
    "socket.gethostbyaddr": _in_replay(_refuse_naming),
    "socket.getnameinfo": _in_replay(_refuse_naming),
    # Programs that this process starts, and changes that all of its trials see.
    "os.system": lambda command: _note_program(_first_word(command)),
    "os.posix_spawn": _note_spawn,
    "os.spawn": lambda mode, path, *_: _note_program(_fs_text(path)),
    "os.startfile": lambda path, *_: _note_program(_first_word(path)),
    **dict.fromkeys(FORK_EVENTS, _note_spawn),
    "os.putenv": _note_variable,
    "os.unsetenv": _note_variable,
    "os.chdir": _note_folder,
}
"""What is called at which audit event."""


def _called_by(modules: tuple[str, ...], depth: int) -> bool:
    """Whether the function so many frames up is one of these modules'."""
    return str(sys._getframe(depth).f_globals.get("__name__", "")).startswith(modules)


def _asks_about_the_machine() -> bool:
    # The first frame outside of those that start a program tells whose program it is.
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in ("subprocess", "os"):
        frame = frame.f_back
    return frame.f_globals.get("__name__") in _ABOUT_THE_MACHINE


def _is_importing() -> bool:
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return False


def _first_word(command: Any) -> str:
    """Give the program of a command, which is a list, or one line as a shell reads it."""
    if isinstance(command, list | tuple):
        return _fs_text(command[0]) if command else ""
    line = _fs_text(command)
    # Variables may stand before the program, as in ``A=1 git log``. An open quote is a ValueError.
    with suppress(ValueError):
        return next((word for word in shlex.split(line) if "=" not in word), line)
    return line.partition(" ")[0]


def _fs_text(value: Any) -> str:
    try:
        return os.fsdecode(value)
    except TypeError:
        return str(value)


def grpc_patch_points(grpc: Any) -> PatchPoints:
    from grpc import _channel
    from grpc.aio import _channel as aio_channel

    for module in (_channel, aio_channel):
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__name__.endswith("MultiCallable"):
                # The class is patched, as a stub holds its callables for longer than any trial lasts.
                for name in ("__call__", "with_call", "future"):
                    if kind.__module__ == module.__name__ and name in vars(kind):
                        yield kind, name, _patch_grpc_call
        # With ``try_to_connect`` these connect the channel, as waiting until a server is ready does.
        for name in ("subscribe", "get_state"):
            if name in vars(module.Channel):
                yield module.Channel, name, _patch_grpc_watching


def _patch_grpc_call(real: Any) -> Any:
    def call(called: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_in_replay("CALL", f"{_grpc_text(called, '_target')}{_grpc_text(called, '_method')}")
        return real(called, *args, **kwargs)

    return call


def _patch_grpc_watching(real: Any) -> Any:
    def watch(channel: Any, *args: Any, **kwargs: Any) -> Any:
        if any(flag is True for flag in (*args, *kwargs.values())):
            # A channel of asyncio does not give its target.
            target = getattr(channel._channel, "target", None)
            place = target().decode("utf-8", "replace") if callable(target) else "channel"
            _refuse_in_replay("CONNECT", place)
        return real(channel, *args, **kwargs)

    return watch


def _refuse_in_replay(method: str, place: str) -> None:
    scope = answering()
    if scope is not None and not (scope.live or scope.reaches(f"grpc://{place.rpartition('///')[2]}")):
        from pytest_agenteval.cassettes.interaction import Request

        raise scope.refusal(Request(method, f"grpc://{place}"))
    if scope is not None:
        scope.note_connection(place)


def _grpc_text(called: Any, name: str) -> str:
    value = getattr(called, name, b"")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

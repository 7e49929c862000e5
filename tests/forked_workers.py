"""Workers of inner runs are forked from one process that has imported pytest, xdist and our modules.

To start Python and to import is most of what a worker costs. Runs in processes of their own start theirs in
xdist's way, and so does every run on a system without ``pidfd_open``. Texts hash alike in all forked workers:
an order that hangs on that is seen by those other runs alone.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import pytest
from execnet import gateway_io

from tests.forked_watchers import fork_watchers, forker, watch_from

LIBRARIES = ("asyncio", "execnet.gateway_base", "faulthandler", "unittest", "xdist.plugin", "xdist.remote")


def fork_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the length of a test, let xdist fork its workers, and runs their watchers, where the system can."""
    if can_fork():
        monkeypatch.setattr(gateway_io, "Popen2IOMaster", ForkedIO)
        fork_watchers(monkeypatch)


@cache
def can_fork() -> bool:
    """Whether a process can be awaited that is no child of ours: on Linux, where no container forbids it."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


class ForkedIO(gateway_io.Popen2IOMaster):
    """What execnet has of a worker: its pipes, and how to await its end."""

    def __init__(self, args: Sequence[str], execmodel: Any) -> None:
        self.popen = ForkedProcess(args)
        gateway_io.Popen2IO.__init__(self, self.popen.stdin, self.popen.stdout, execmodel)


class ForkedProcess:
    """As much of a ``Popen`` as execnet uses."""

    def __init__(self, args: Sequence[str]) -> None:
        inputs, outputs = os.pipe(), os.pipe()
        order = {"args": args, "folder": os.getcwd(), "environ": dict(os.environ)}
        socket.send_fds(_orders(), [json.dumps(order).encode()], [inputs[0], outputs[1], 2])
        self.process = os.pidfd_open(int(_orders().recv(64)))  # it waits for its first line: it is there
        os.close(inputs[0])
        os.close(outputs[1])
        self.stdin, self.stdout = os.fdopen(inputs[1], "wb"), os.fdopen(outputs[0], "rb")

    def __del__(self) -> None:
        os.close(self.process)

    def wait(self) -> None:
        """Wait for its end; nobody asks how it ended."""
        ending = select.poll()  # and not select.select, which knows no handle above 1023
        ending.register(self.process, select.POLLIN)
        ending.poll()

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)


@cache
def _orders() -> socket.socket:
    """Give the line to the process that forks, which ends when this one does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = f"from tests.forked_workers import obey; obey({theirs.fileno()}, {forker()!r})"
    subprocess.Popen(
        [sys.executable, "-u", "-c", program],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    atexit.register(ours.close)  # else Python warns of it as it ends
    return ours


def obey(handle: int, watchers: bytes) -> None:
    """Fork a worker for each order that comes, and answer with its number; its watcher is forked there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    watch_from(watchers)
    with socket.socket(fileno=handle) as orders:
        while True:
            order, handles, *_ = socket.recv_fds(orders, 2**20, 3)
            if not order:
                return
            process = os.fork()
            if not process:
                orders.close()
                _work(handles, **json.loads(order))
            orders.send(str(process).encode())
            for each in handles:
                os.close(each)
            _forget_ended()


def _import_all() -> None:
    """Import what workers need, plugins as pytest does it for them."""
    from _pytest.assertion import install_importhook
    from _pytest.config import get_config

    config = get_config()
    vars(config).setdefault("inicfg", {})  # which pytest 8 has only once it has read a command line
    install_importhook(config).mark_rewrite("pytest_agenteval", "xdist")
    for name in LIBRARIES:
        import_module(name)
    from tests.installed import import_ours, remember_distributions
    from tests.plugins_of_pytest import look_once

    import_ours()
    remember_distributions()
    look_once()
    config._ensure_unconfigure()
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    gc.freeze()


def _work(handles: Sequence[int], args: Sequence[str], folder: str, environ: Mapping[str, str]) -> NoReturn:
    """Be the worker that execnet wanted to start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for place, handle in enumerate(handles):
        os.dup2(handle, place)
        os.close(handle)
    sys.stdin = os.fdopen(0, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    sys.dont_write_bytecode = "-B" in args
    exec(args[-1], {"__name__": "__main__"})
    atexit._run_exitfuncs()  # but to take apart what was imported would cost as much as the worker
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _forget_ended() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass

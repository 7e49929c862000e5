"""What watches over Ctrl-C in a run inside a test is forked from one process that has started Python.

Each run has such a process beside it, and so has each of its workers: to start Python for it is a quarter of
what a small run takes. It runs the same program, with the same handles, and is ended in the same way. Runs in
processes of their own start theirs as ever, and so does every run on a system without ``pidfd_open``.
"""

from __future__ import annotations

import _socket
import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from types import SimpleNamespace

import pytest

FORKER = """
import json, os, select, signal, socket, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
listening, compiled, orders = socket.socket(fileno=int(sys.argv[1])), {}, select.poll()
orders.register(0)  # which is closed when the tests are over
orders.register(listening, select.POLLIN)
while 0 not in (ready := [handle for handle, _ in orders.poll()]):
    connection, _ = listening.accept()
    order, handles, *_ = socket.recv_fds(connection, 2**20, 3)
    program, *arguments = json.loads(order)
    if program not in compiled:
        compiled[program] = compile(program, "<watcher>", "exec")
    process = os.fork()
    if not process:
        for each in (listening, connection):
            each.close()
        for place, handle in enumerate(handles):
            os.dup2(handle, place)
            os.close(handle)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sys.argv = ["-c", *arguments]
        try:
            exec(compiled[program], {"__name__": "__main__"})
        finally:
            os._exit(0)
    for handle in handles:
        os.close(handle)  # before the answer: from then on the watcher alone may read what it was given
    connection.send(str(process).encode())
    connection.close()
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
"""
"""What the process runs that forks: it answers each order with the number of a process."""


class Forked:
    """As much of a ``Popen`` as is used of a process that is no child of this one."""

    def __init__(self, pid: int) -> None:
        self.process = os.pidfd_open(pid)

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


class ForkedWatcher(Forked):
    """What a watch has of its process."""

    def __init__(self, arguments: Sequence[str], stdin: int, address: bytes) -> None:
        program = arguments[arguments.index("-c") + 1 :]
        # The class in C: what an inner run does to that of Python, to watch or to forbid it, is not for us.
        line = _socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.connect(address)
        socket.send_fds(line, [json.dumps(program).encode()], [stdin, 1, 2])  # type: ignore[arg-type]
        super().__init__(int(line.recv(64)))  # it waits for signs of life: it is there
        line.close()


def fork_watchers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs have forked watchers for the length of a test."""
    monkeypatch.setattr("pytest_agenteval.session.run_signals.subprocess", _starting_at(forker()))


def watch_from(address: bytes) -> None:
    """Let all runs of this process have watchers that are forked there."""
    from pytest_agenteval.session import run_signals  # not sooner: pytest wants to rewrite what is imported

    run_signals.subprocess = _starting_at(address)  # type: ignore[assignment]


def _starting_at(address: bytes) -> SimpleNamespace:
    """Give what stands for ``subprocess`` where a watcher is started."""

    def start(arguments: Sequence[str], stdin: int) -> ForkedWatcher:
        return ForkedWatcher(arguments, stdin, address)

    return SimpleNamespace(Popen=start)


@cache
def forker() -> bytes:
    """Start the process that forks, which ends with this one, and give the address at which it listens."""
    listening = _socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind("")  # upon which Linux gives it a name that nobody has
    listening.listen(64)
    started = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", FORKER, str(listening.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[listening.fileno()],
    )
    address: bytes = listening.getsockname()
    listening.close()
    atexit.register(_end, started)
    return address


def _end(started: subprocess.Popen[bytes]) -> None:
    assert started.stdin is not None
    started.stdin.close()
    started.wait()

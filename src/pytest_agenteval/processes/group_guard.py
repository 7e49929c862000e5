"""A process beside this one that ends its process groups where it is killed: nothing in Python can then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

GUARD = """
import os, select, signal, sys
parent, groups, rest = int(sys.argv[1]), set(), b""
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    if select.select([0], [], [], 0.5)[0]:
        read = os.read(0, 65536)
        if not read:
            break
        *lines, rest = (rest + read).split(b"\\n")
        for line in lines:
            (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    elif os.getppid() != parent:  # a process that an agent forked may hold the pipe open
        break
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass
"""
"""What the other process runs: it reads ``+NUMBER`` of a group to end, ``-NUMBER`` of one that has ended."""


class GroupGuard:
    """Tells the guard which groups there are; it is started before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard: subprocess.Popen[bytes] | None = None
        self._process = 0

    def start(self) -> None:
        """Be ready before a group is started: it takes longer than some programs do to begin."""
        with self._lock:
            if self._guard is None or self._process != os.getpid():
                self._process, self._guard = os.getpid(), _start()

    def add(self, group: int) -> None:
        """Have a group ended with this process, however it ends."""
        self.start()
        self._tell(f"+{group}\n")

    def discard(self, group: int) -> None:
        """Leave a group alone: it has ended, and its number may be another's."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        guard = self._guard
        if guard is not None and guard.stdin is not None and self._process == os.getpid():
            with suppress(OSError):  # somebody has killed it
                os.write(guard.stdin.fileno(), line.encode())


def _start() -> subprocess.Popen[bytes]:
    # Without site and what PYTHON* variables name: it starts fast, and runs nobody else's code.
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

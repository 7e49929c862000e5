"""Which processes there are, whose they are, and signals to those that are still who they were."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pytest_agenteval.processes.files import POSIX

FORK_EVENTS = ("os.fork", "os.forkpty")
"""Audit events of a process that copies itself."""


def is_running(pid: int) -> bool:
    """Whether there is a process of that number; where nobody can tell (Windows), there is none."""
    if not POSIX:
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    now = _stat(pid)
    if now is None:  # it has ended since; or there is no /proc, and a signal is all that can be tried
        return not Path("/proc/self").exists()
    return not now.has_ended


def signal_each(started: dict[int, str], number: int) -> None:
    """Send a signal to processes that are still who they were: a number may have gone to another."""
    for pid, born in started.items():
        with suppress(ProcessLookupError, PermissionError):
            if (now := _stat(pid)) is not None and now.born == born:
                os.kill(pid, number)


def descendants(pid: int) -> dict[int, str]:
    """Give the processes that one started, and those that they did, each with when it was born.

    Only where the system has /proc: elsewhere the group is all that is known.
    """
    every = {int(entry.name): _stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")}
    out: dict[int, str] = {}
    left = [pid]
    while left:
        parent = left.pop()
        children = {child: of.born for child, of in every.items() if of and of.parent == parent}
        left += [child for child in children if child not in out]
        out |= children
    return out


def kill_descendants(pid: int) -> None:
    """Kill the processes that one started, and those that they did, where the system tells which they are."""
    if POSIX:
        signal_each(descendants(pid), signal.SIGKILL)


def with_variable(variable: str) -> dict[int, str]:
    """Give the other processes that were started with a variable, each with when it was born.

    Only with /proc. This one is left out: who ends them has to live to see them gone.
    """
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _has_variable(folder, variable)]
    return {pid: now.born for pid in pids if pid != os.getpid() and (now := _stat(pid)) is not None}


def _has_variable(folder: Path, variable: str) -> bool:
    try:
        return os.fsencode(variable) in (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False


def has_members(leader: int) -> bool:
    """Whether a group has a process that has not ended, though nobody may have asked yet how it did."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return False
    living = [_stat(int(entry.name)) for entry in Path("/proc").glob("[0-9]*")]
    return not living or any(of.group == leader and not of.has_ended for of in living if of is not None)


class _ProcessStat(NamedTuple):
    """What /proc says of a process; ``has_ended`` is one that nobody has asked yet how it ended."""

    has_ended: bool
    parent: int
    group: int
    born: str


def _stat(pid: int) -> _ProcessStat | None:
    """Look at a process; None where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # its name stands in parentheses, and may hold anything
    return _ProcessStat(fields[0] in "ZX", int(fields[1]), int(fields[2]), fields[19])

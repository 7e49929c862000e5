"""What is watched, what is owned, and what is ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import NoReturn

import pytest

from pytest_agenteval.processes import process_groups, signals


def _start(arguments: list[str], heard: int) -> NoReturn:
    raise AssertionError("a watcher was started")


def _close() -> NoReturn:
    raise AssertionError("the process was taken for an orphan")


def test_elsewhere_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process, no thread, no pipe; the undoing does nothing."""
    monkeypatch.setattr(signals, "POSIX", False)
    for name in ("set_wakeup_fd", "SIGKILL"):
        monkeypatch.delattr(signals.signal, name, raising=False)
    before = threading.active_count()

    undo = signals.watch_interrupts("", _start)
    undo()

    assert threading.active_count() == before


def test_outside_the_main_thread_nothing_is_watched() -> None:
    """Only there Python hears signals."""
    undone: list[bool] = []

    def watch() -> None:
        signals.watch_interrupts("", _start)()
        undone.append(True)

    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()

    assert undone == [True]


@pytest.mark.posix
def test_what_is_watched_is_undone() -> None:
    """The watching process is gone without a notice, and the wakeup that somebody had set is theirs again."""
    started: list[subprocess.Popen[bytes]] = []

    def start(arguments: list[str], heard: int) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(arguments, stdin=heard, stdout=subprocess.PIPE))
        return started[0]

    theirs, _ = ours = os.pipe()
    os.set_blocking(ours[1], False)
    before = signals.signal.set_wakeup_fd(ours[1])
    try:
        signals.watch_interrupts("", start, "it ended before its run")()

        assert started[0].communicate()[0] == b""
    finally:
        assert signals.signal.set_wakeup_fd(before) == ours[1]
        os.close(theirs)
        os.close(ours[1])


def test_a_process_with_another_parent_is_not_watched() -> None:
    """A worker that another machine's process started has nobody here to end with."""
    before = threading.active_count()
    process_groups.end_with_parent(-1, _close)

    assert threading.active_count() == before


OWNER = """
import subprocess
import sys
from pytest_agenteval.processes.process_groups import GROUP, own_group
script = "trap '' TERM; (trap '' TERM; read -r x <&3) & echo $! $$; read -r x <&3"
held = subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE, **GROUP)
own_group(held)
started = subprocess.Popen(["bash", "-c", script.replace("3", str(held.stdout.fileno()))],
                           stdout=subprocess.PIPE, pass_fds=[held.stdout.fileno()], **GROUP)
own_group(started)
print(held.pid, started.stdout.readline().decode())
"""


@pytest.mark.posix
def test_what_a_process_owns_ends_with_it() -> None:
    """Also what does not want to, and what that has started."""
    owner = subprocess.run([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, check=True)

    pids = [int(word) for word in owner.stdout.split()]
    assert [process_groups.is_running(pid) for pid in pids] == [False] * 3


HEAVY = """
import mmap
import os
import signal
if not os.fork():
    held = mmap.mmap(-1, 2**26)
    held[::4096] = bytes(2**26 // 4096)
    os.write(1, b"%d\\n" % os.getpid())
signal.pause()
"""


@pytest.mark.posix
def test_what_is_killed_is_gone() -> None:
    """Also what takes longer to die than its leader, as it has more to give back: its port is free."""
    leader = subprocess.Popen(
        [sys.executable, "-S", "-c", HEAVY], stdout=subprocess.PIPE, **process_groups.GROUP
    )
    assert leader.stdout is not None
    with leader.stdout as told:
        child = int(told.readline())

        process_groups.end_group(leader, 0)

    assert not process_groups.is_running(child)

"""What is watched, what is owned, and what is ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
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


LEAVING = (
    "import subprocess; print(subprocess.Popen(['sleep', '1000'], stdout=subprocess.DEVNULL).pid, flush=True)"
)


@pytest.mark.posix
def test_the_rest_of_a_group_is_ended_after_its_leader() -> None:
    """A program may end before what it started, which has another parent then."""
    leader = subprocess.Popen(
        [sys.executable, "-S", "-c", LEAVING], stdout=subprocess.PIPE, **process_groups.GROUP
    )
    child = int(leader.communicate()[0])
    assert process_groups.is_running(child)

    process_groups.end_group(leader, 0)

    assert not process_groups.is_running(child)


@pytest.mark.posix
def test_a_process_that_has_ended_is_not_running_though_nobody_waited_for_it() -> None:
    """The system remembers it until then."""
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""], stdout=subprocess.PIPE)
    assert ended.stdout is not None
    assert ended.stdout.read() == b""
    until = time.monotonic() + 20
    while process_groups.is_running(ended.pid) and time.monotonic() < until:
        time.sleep(0.01)

    assert time.monotonic() < until
    ended.communicate()


@pytest.mark.posix
def test_who_ends_processes_by_a_variable_does_not_end_itself() -> None:
    """It may have the variable itself, as what started it has."""
    end = "from pytest_agenteval.processes.process_groups import end_processes_with_variable as end\n"
    code = f"import os, subprocess\n{end}other = subprocess.Popen(['sleep', '1000'])\n"
    code += "end('AGENTEVAL_TESTED=1', 0)\nprint(other.wait())"
    environment = {**os.environ, "AGENTEVAL_TESTED": "1"}

    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    assert done.stdout in ("-15\n", "-9\n"), done.stderr

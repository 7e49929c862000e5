"""Files in a run's folder by which its processes know who is at work, who has died, and when to stop."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_agenteval.processes import signals
from pytest_agenteval.processes.captured_output import is_captured
from pytest_agenteval.processes.files import PresenceLock
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.session.stash import held_run_key
from pytest_agenteval.store.run_folder import HOLD_FILE

DEAD_WORKERS = "lost"  # the file in a run's folder that names the workers that died
BUDGET_FILES = "budget-*.json"  # the files in a run's folder in which its processes add up what they pay
RATE_FILES = "rates-*.json"  # the files in a run's folder by which its processes share rate limits
# Seconds that the workers of a killed controller have to end; two seconds are what they need.
CLAIM_PATIENCE_S = 5.0


def hold_run(config: pytest.Config, folder: Path, controller: int) -> None:
    """Mark the run, until this pytest ends, as being worked on by this ``controller``."""
    if held_run_key not in config.stash:
        lock = _presence_lock(config, folder)
        lock.hold()
        lock.write(str(controller))


def claim_run(config: pytest.Config, folder: Path) -> str:
    """Mark a run as being worked on by this process alone; return the number of another that holds it."""
    # Only the lock decides, as the number in the file may belong to another process by now. If the process of
    # that number is gone, its workers get time to end.
    lock = _presence_lock(config, folder)
    holder = lock.read()
    patience = 0.0 if holder.isdecimal() and is_running(int(holder)) else CLAIM_PATIENCE_S
    if not lock.claim(patience):
        return holder or "?"
    lock.write(str(os.getpid()))
    return ""


def _presence_lock(config: pytest.Config, folder: Path) -> PresenceLock:
    lock = config.stash[held_run_key] = PresenceLock(folder / HOLD_FILE)
    config.add_cleanup(lock.release)
    return lock


STOP_FILE = "stop"  # the file in a run's folder by which the controller stops its workers early

# What the watching process prints after a kill, a crash or os._exit: pytest prints nothing then.
SUDDEN_END = (
    "\nagenteval: the pytest process ended before the run did: it was killed, or code in it exited. "
    "Finished trials are stored: run the same command with --agent-resume.\n"
)


class StopListener:
    """Knows whether the controller has stopped this worker; does nothing in other processes."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._file = folder / STOP_FILE if hasattr(config, "workerinput") else None
        self.received = False

    def raise_if_stopped(self, session: pytest.Session) -> None:
        """End the current item and pytest's loop, where the controller has stopped this worker."""
        if self._file is not None and self._file.exists():
            self.received = True
            session.shouldstop = "the controller stops"
            pytest.exit("the controller stops")


class StopBroadcaster:
    """Stops the workers when the controller stops: after ``-x``, ``--maxfail`` or Ctrl-C.

    xdist itself lets each worker finish its queue; ours are deep, and their trials cost money.
    """

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config, self._file = config, folder / STOP_FILE

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        """Stop the workers if this report ended the session."""
        # Last, as pytest counts failures in this same hook.
        session = self._config.pluginmanager.get_plugin("session")
        if session is not None and (session.shouldfail or session.shouldstop):
            self.pytest_keyboard_interrupt()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Stop the workers, which the signal may not have reached."""
        with suppress(OSError):  # a run without a folder has no workers
            self._file.touch()

    def pytest_unconfigure(self) -> None:
        """Delete the file: the workers are gone."""
        self._file.unlink(missing_ok=True)


def watch_run_interrupts(config: pytest.Config, folder: Path, is_saved: bool) -> Callable[[], None]:
    """Have Ctrl-C or the stop file end this process even if no Python code reacts; return the undoing."""
    # If the process ends suddenly and the run is saved, a line names ``--agent-resume``.
    is_worker = hasattr(config, "workerinput")
    stop = str(folder / STOP_FILE) if is_worker else ""
    notice = SUDDEN_END if is_saved and not is_worker else ""
    capture = config.pluginmanager.get_plugin("capturemanager")

    def start(arguments: list[str], stdin: int) -> subprocess.Popen[bytes]:
        if capture is None or not is_captured(capture):
            return subprocess.Popen(arguments, stdin=stdin)
        # Suspended, because the new process has to print to the terminal itself.
        capture.suspend_global_capture()
        try:
            return subprocess.Popen(arguments, stdin=stdin)
        finally:
            capture.resume_global_capture()

    return signals.watch_interrupts(stop, start, notice)

"""Files in a run's folder by which its processes know who is at work, who has died, and when to stop."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_agenteval.processes import process_groups, signals
from pytest_agenteval.processes.captured_output import is_captured
from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.processes.shared_state import PresenceLock
from pytest_agenteval.session.stash import held_run_key

HOLD_FILE = ".held"

DEAD_WORKERS = "lost"
"""The file in a run's folder that names the workers that have died."""

BUDGET_FILES = "budget-*.json"
"""The files in a run's folder by which its processes count what they pay."""

RATE_FILES = "rates-*.json"
"""The files in a run's folder by which its processes share the places of models."""

CLAIM_PATIENCE_S = 5.0
"""Seconds that the workers of a controller that was killed have to end: they need two."""


def hold_run(config: pytest.Config, folder: Path, controller: int) -> None:
    """Say, until this pytest ends, that the run is being worked on, and which process speaks for it."""
    if held_run_key not in config.stash:
        held = _presence_lock(config, folder)
        held.hold()
        held.write(str(controller))


def claim_run(config: pytest.Config, folder: Path) -> str:
    """Say the same of a run that nobody else is at work on; else give the process that is.

    The number that stands there is not believed, for it may be another process's by now: where that is gone,
    its workers are waited for, and what decides is whether anybody holds the file.
    """
    held = _presence_lock(config, folder)
    holder = held.read()
    patience = 0.0 if holder.isdecimal() and is_running(int(holder)) else CLAIM_PATIENCE_S
    if not held.claim(patience):
        return holder or "?"
    held.write(str(os.getpid()))
    return ""


def _presence_lock(config: pytest.Config, folder: Path) -> PresenceLock:
    held = config.stash[held_run_key] = PresenceLock(folder / HOLD_FILE)
    config.add_cleanup(held.release)
    return held


STOP_FILE = "stop"
"""The file in a run's folder by which the controller tells its workers to end early."""

SUDDEN_END = (
    "\nagenteval: the pytest process ended before the run did: it was killed, or code in it ended it. "
    "Finished trials are kept: run the same command with --agent-resume.\n"
)
"""What is printed after a kill, a crash or os._exit: no Python can, and pytest prints nothing."""


class StopListener:
    """Knows whether a worker was told to stop; elsewhere nobody tells."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._word = folder / STOP_FILE if hasattr(config, "workerinput") else None
        self.received = False

    def raise_if_stopped(self, session: pytest.Session) -> None:
        """Leave the item that pytest is busy with, and the loop, where the controller said so."""
        if self._word is not None and self._word.exists():
            self.received = True
            session.shouldstop = "the controller stops"
            pytest.exit("the controller stops")


class StopBroadcaster:
    """Tells the workers when the controller stops: after ``-x``, ``--maxfail`` or Ctrl-C.

    Left alone, xdist lets each worker finish its queue; ours are deep, and what is in them is paid for.
    """

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._config, self._word = config, folder / STOP_FILE

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self) -> None:
        """Look whether this report was the one too many."""
        # Last, for pytest counts failures in this same hook.
        session = self._config.pluginmanager.get_plugin("session")
        if session is not None and (session.shouldfail or session.shouldstop):
            self._tell()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Tell the workers, which the signal may not have reached."""
        self._tell()

    def pytest_unconfigure(self) -> None:
        """Leave nothing in the run's folder: the workers are gone."""
        self._word.unlink(missing_ok=True)

    def _tell(self) -> None:
        with suppress(OSError):  # a run without a folder has nobody to tell
            self._word.touch()


def watch_run_interrupts(config: pytest.Config, folder: Path, is_kept: bool) -> Callable[[], None]:
    """Have this process ended where Ctrl-C, or the controller's word to stop, reaches no Python.

    Give the undoing. Where this process ends suddenly a run that is kept is gone on with by
    ``--agent-resume``, and a line says so; of a worker xdist reports it.
    """
    is_worker = hasattr(config, "workerinput")
    stop = str(folder / STOP_FILE) if is_worker else ""
    notice = SUDDEN_END if is_kept and not is_worker else ""
    capture = config.pluginmanager.get_plugin("capturemanager")

    def start(arguments: list[str], stdin: int) -> subprocess.Popen[bytes]:
        if capture is None or not is_captured(capture):
            return subprocess.Popen(arguments, stdin=stdin)
        capture.suspend_global_capture()  # what it has to say is for the terminal
        try:
            return subprocess.Popen(arguments, stdin=stdin)
        finally:
            capture.resume_global_capture()

    return signals.watch_interrupts(stop, start, notice)


def end_with_controller(controller: int, close: Callable[[], object]) -> None:
    """Watch, in a worker or a pytest of ours, over the process that started it, and end soon after that does.

    Left alone, a worker whose controller was killed goes on asking models for as long as its trials take:
    nobody would ever see what comes of it. A worker that was started by another process than the controller,
    as on another machine, is not watched; on Windows xdist's own channel ends it, seconds later.
    """
    process_groups.end_with_parent(controller, close)

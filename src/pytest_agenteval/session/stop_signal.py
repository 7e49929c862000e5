"""How a run is told to stop: the controller's word to its workers, and a watch over Ctrl-C."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_agenteval.processes import process_groups, signals
from pytest_agenteval.processes.captured_output import is_captured

STOP = "stop"
"""The file in a run's folder by which the controller tells its workers to end early."""

SUDDEN_END = (
    "\nagenteval: the pytest process ended before the run did: it was killed, or code in it ended it. "
    "Finished trials are kept: run the same command with --agent-resume.\n"
)
"""What is printed after a kill, a crash or os._exit: no Python can, and pytest prints nothing."""


class StopListener:
    """Knows whether a worker was told to stop; elsewhere nobody tells."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._word = folder / STOP if hasattr(config, "workerinput") else None
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
        self._config, self._word = config, folder / STOP

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


def watch_interrupts(config: pytest.Config, folder: Path, is_kept: bool) -> Callable[[], None]:
    """Have this process ended where Ctrl-C, or the controller's word to stop, reaches no Python.

    Give the undoing. Where this process ends suddenly a run that is kept is gone on with by
    ``--agent-resume``, and a line says so; of a worker xdist reports it.
    """
    is_worker = hasattr(config, "workerinput")
    stop = str(folder / STOP) if is_worker else ""
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


def watch_controller(controller: int, close: Callable[[], object]) -> None:
    """Watch, in a worker or a pytest of ours, over the process that started it, and end soon after that does.

    Left alone, a worker whose controller was killed goes on asking models for as long as its trials take:
    nobody would ever see what comes of it. A worker that was started by another process than the controller,
    as on another machine, is not watched; on Windows xdist's own channel ends it, seconds later.
    """
    process_groups.end_with_parent(controller, close)

"""The ends that Python alone does not reach: Ctrl-C into C code, and a worker whose controller is gone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_agenteval.portable import processes
from pytest_agenteval.session.stop_signal import STOP


def watch_interrupts(config: pytest.Config, folder: Path) -> Callable[[], None]:
    """Have this process ended where Ctrl-C, or the controller's word to stop, reaches no Python.

    Give the undoing.
    """
    stop = str(folder / STOP) if hasattr(config, "workerinput") else ""
    capture = config.pluginmanager.get_plugin("capturemanager")

    def start(arguments: list[str], heard: int) -> subprocess.Popen[bytes]:
        if capture is None or not capture.is_globally_capturing():
            return subprocess.Popen(arguments, stdin=heard)
        capture.suspend_global_capture()  # what it has to say is for the terminal
        try:
            return subprocess.Popen(arguments, stdin=heard)
        finally:
            capture.resume_global_capture()

    return processes.watch_interrupts(stop, start)


def watch_controller(controller: int, close: Callable[[], object]) -> None:
    """Watch, in a worker, over the process that started it, and end soon after that does.

    Left alone, a worker whose controller was killed goes on asking models for as long as its trials take:
    nobody would ever see what comes of it. A worker that was started by another process than the controller,
    as on another machine, is not watched; on Windows xdist's own channel ends it, seconds later.
    """
    processes.end_with_parent(controller, close)

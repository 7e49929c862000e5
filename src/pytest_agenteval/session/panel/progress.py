"""A panel on the terminal while trials run: when there is one, and who draws it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.terminal import TerminalReporter

from pytest_agenteval.processes.signals import is_terminal_with_escapes, on_ctrl_z
from pytest_agenteval.session.stash import eval_session_key, progress_key, run_info_key

if TYPE_CHECKING:
    from pytest_agenteval.reports.progress_panel import PanelLine


TICK_S = 0.25
"""Seconds between two looks at what the run is at."""

PATIENCE_S = 0.5
"""Seconds before the panel is shown: quick runs need none."""

PLAIN = ("collectonly", "setuponly", "setupplan", "setupshow", "usepdb", "trace")
"""Options of pytest under which no trial is begun, or somebody looks at one test at a time."""

COLOURS = {"": "", "dim": "\x1b[2m", "green": "\x1b[32m", "yellow": "\x1b[33m", "red": "\x1b[31m"}
NO_COLOUR = "\x1b[0m"


def begin_progress(config: pytest.Config) -> None:
    """Show what the run is at from now on, where somebody looks at a terminal that can show it.

    Once for each run, in the process that speaks for it, after the run's plan was written down.
    """
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if progress_key in config.stash or not _is_shown(config, reporter):
        return
    panel = config.stash[progress_key] = ProgressPanel(reporter, config.stash[run_info_key].folder)
    config.pluginmanager.register(panel, "agenteval-progress")
    config.add_cleanup(panel.close)
    panel.start()


def _is_shown(config: pytest.Config, reporter: Any) -> bool:
    # Of pytest's own class: others draw below their lines themselves.
    if type(reporter) is not TerminalReporter or hasattr(config, "workerinput"):
        return False
    option = config.option
    if option.verbose < 0 or option.capture == "no" or any(getattr(option, name, False) for name in PLAIN):
        return False
    if os.environ.get("CI") or os.environ.get("BUILD_NUMBER"):  # as pytest itself knows a CI server
        return False
    return _is_capable(reporter._tw._file) and _setting(config) != "no"


def _is_capable(stream: Any) -> bool:
    try:
        return is_terminal_with_escapes(stream.fileno()) and hasattr(stream, "__dict__")
    except (AttributeError, OSError, ValueError):  # an object that somebody prints into
        return False


def _setting(config: pytest.Config) -> str:
    evals = config.stash.get(eval_session_key, None)
    if evals is not None:
        return str(evals.settings.progress)
    from pytest_agenteval.session.settings_reading import read_settings

    return read_settings(config).progress


class ProgressPanel:
    """Keeps what the run is at on the terminal, from a thread of its own that ends with the run."""

    def __init__(self, reporter: Any, folder: Path) -> None:
        from pytest_agenteval.session.panel.rows_below import RowsBelow
        from pytest_agenteval.session.panel.run_progress import RunProgress

        writer = reporter._tw
        self._colours = bool(writer.hasmarkup)
        self._ascii_only = not _writes_unicode(writer._file)
        self._progress = RunProgress(folder)
        self._rows = RowsBelow(writer._file, _other_terminals(), writer.width_of_current_line)
        self._leave_stops = on_ctrl_z(self._rows.step_aside)
        self._first_display_at = time.monotonic() + PATIENCE_S
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="agenteval-progress", daemon=True)

    def start(self) -> None:
        """Begin to look and to draw."""
        self._thread.start()

    def close(self) -> None:
        """Take the panel away for good; nobody waits for its thread."""
        self._over.set()
        self._rows.close()
        self._leave_stops()

    def pytest_enter_pdb(self) -> None:
        """Leave the terminal to the debugger."""
        self._rows.pause()

    def pytest_leave_pdb(self) -> None:
        """Come back."""
        self._rows.go_on()

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        """Leave the terminal to what pytest has to say."""
        self.close()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Leave the terminal to what pytest has to say."""
        self.close()

    def _watch(self) -> None:
        try:
            while not self._over.wait(TICK_S):
                self._tick(time.monotonic())
        except OSError:  # the terminal is gone, or the run's folder: the run goes on without
            pass
        finally:  # a mistake of ours, too, must not stay on the terminal; pytest tells it as a warning
            self._rows.close()

    def _tick(self, now: float) -> None:
        self._progress.update(now)
        size = self._rows.size()
        is_shown = now >= self._first_display_at and self._progress.is_going_on
        self._rows.show(self._lines(now, size) if is_shown else [], size)

    def _lines(self, now: float, size: os.terminal_size) -> list[str]:
        from pytest_agenteval.reports.progress_panel import FEWEST_ROWS, panel_lines

        if size.lines < FEWEST_ROWS:
            return []
        lines = panel_lines(self._progress.progress(now), size.columns, ascii_only=self._ascii_only)
        return [self._painted(line) for line in lines]

    def _painted(self, line: PanelLine) -> str:
        if not self._colours:
            return "".join(piece.text for piece in line)
        return "".join(
            f"{COLOURS[piece.look]}{piece.text}{NO_COLOUR}" if piece.look else piece.text for piece in line
        )


def _writes_unicode(stream: Any) -> bool:
    return "utf" in str(getattr(stream, "encoding", "")).lower()


def _other_terminals() -> Iterable[Any]:
    """Give the streams of this process that lead to a terminal, which is as a rule the same."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None and _is_capable(stream):
            yield stream

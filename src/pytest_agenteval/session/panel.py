"""The lines below pytest's own that show what a run is at, on a terminal."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock, get_ident
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.terminal import TerminalReporter

from pytest_agenteval.processes.signals import is_in_foreground, is_terminal_with_escapes, on_ctrl_z
from pytest_agenteval.session.stash import eval_session_key, progress_key, run_info_key
from pytest_agenteval.text.formatting import cell_width

if TYPE_CHECKING:
    from pytest_agenteval.reports.progress_panel import PanelLine


_WITHOUT_WIDTH = re.compile(r"\x1b\[[0-9;]*m|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Colours, and what is told to the terminal itself, such as its title."""

_MOVES_CURSOR = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


class CurrentLine:
    """Follows what is written to a terminal.

    ``is_known`` is False from where nobody can tell the column until the line ends: something moves the
    cursor within the line, as ``\\r`` does, or a wide letter may have been put on the next row. A terminal
    whose size nobody has set, such as one of a container, has 0 ``columns``.
    """

    def __init__(self, column: int) -> None:
        self._column = column
        self.is_known = True

    def is_left_by(self, text: str, columns: int) -> bool:
        """Whether the cursor leaves its row, or nobody knows where it is, when this is written."""
        if "\n" in text:
            return True
        width = _width(text)
        return width is None or columns < 1 or width >= columns - self._column % columns

    def take(self, text: str, columns: int) -> None:
        """Note what is written."""
        _, newline, rest = text.rpartition("\n")
        if newline:
            self._column, self.is_known = 0, True
        width = _width(rest)
        may_jump = not rest.isascii() and self.is_left_by(rest, columns)
        self.is_known = self.is_known and width is not None and not may_jump
        self._column += width or 0

    def has_room(self, columns: int) -> bool:
        """Whether the cursor stands within a row, and not behind its last column, where terminals differ."""
        return self.is_known and columns > 0 and (self._column == 0 or self._column % columns != 0)


def _width(text: str) -> int | None:
    """Give the columns that a text within a line takes; None where it moves the cursor elsewhere."""
    if text.isascii() and text.isprintable():
        return len(text)
    plain = _WITHOUT_WIDTH.sub("", text)
    return None if _MOVES_CURSOR.search(plain) else cell_width(plain)


# DEC's index: a row down in the same column. The screen scrolls where there is none; a line feed would go to
# the first column as well, and a cursor that was saved before would not scroll along.
DOWN, UP = "\x1bD", "\x1b[{}A"
SAVE, RESTORE, ERASE_LINE, ERASE_BELOW = "\x1b7", "\x1b8", "\x1b[K", "\x1b[J"


class RowsBelow:
    """Shows lines below the cursor and takes them away before anything else needs their place.

    The methods that write are replaced on the streams themselves, so that it does not matter who writes:
    pytest, another plugin, a hook that prints. Dots that stay on their line pass by; what ends the line takes
    the panel away, and it comes back when the stream is flushed or the panel shown again: the latter alone
    after another thread than pytest's has written.
    """

    def __init__(self, terminal: Any, others: Iterable[Any], column: int) -> None:
        # Of its own: while a test runs, pytest captures what is written to the stream's.
        self._fd = os.dup(terminal.fileno())
        self._encoding = getattr(terminal, "encoding", None) or "utf-8"
        self._lock, self._process, self._thread = RLock(), os.getpid(), get_ident()
        self._line = CurrentLine(column)
        self._lines: tuple[str, ...] = ()
        self._terminal_size = os.get_terminal_size(self._fd)
        self._is_drawn = self._is_unflushed = self._is_paused = self._is_closed = False
        streams = {id(stream): stream for stream in (terminal, *others)}
        self._undo = [undo for stream in streams.values() for undo in self._guard(stream)]

    def size(self) -> os.terminal_size:
        """Give the terminal's size as it is now."""
        return os.get_terminal_size(self._fd)

    def show(self, lines: Sequence[str], size: os.terminal_size) -> None:
        """Have these lines stand below the cursor from now on; ``size`` is the one they were made for.

        They are written even if they stand there: a key that somebody pressed may have moved the cursor.
        """
        with self._lock:
            if len(lines) < len(self._lines) or size != self._terminal_size:
                self._erase()
            self._lines, self._terminal_size = tuple(lines), size
            self._draw()

    def step_aside(self, stop: Callable[[], None]) -> None:
        """Take the lines away while ``stop`` lasts, in which nothing is written."""
        with self._lock:
            self._erase()
            stop()

    def pause(self) -> None:
        """Take the lines away until ``go_on``: somebody else has the terminal."""
        with self._lock:
            self._erase()
            self._is_paused = True

    def go_on(self) -> None:
        """Let lines be shown again."""
        self._is_paused = False

    def close(self) -> None:
        """Take the lines away for good, and leave the streams as they were; may be called twice."""
        with self._lock:
            if not self._is_closed:
                with suppress(OSError):  # a terminal that is gone shows nothing
                    self._erase()
                self._is_closed = True
                os.close(self._fd)
                for undo in self._undo:
                    undo()

    def _guard(self, stream: Any) -> list[Callable[[], None]]:
        write, flush = stream.write, stream.flush

        def write_above(text: str) -> Any:
            if self._is_closed or os.getpid() != self._process:  # a fork may have copied a lock that is held
                return write(text)
            with self._lock:
                columns = self._terminal_size.columns
                if self._is_drawn and self._line.is_left_by(text, columns):
                    self._erase()
                self._line.take(text, columns)
                self._is_unflushed = not text.endswith("\n")
                return write(text)

        def flush_and_draw() -> None:
            flush()
            if not self._is_closed and os.getpid() == self._process:
                with self._lock:
                    self._is_unflushed = False
                    # Another thread may be about to end the process, as pytest-timeout's does.
                    if not self._is_drawn and get_ident() == self._thread:
                        self._draw()

        try:
            return [_replace(stream, "write", write_above), _replace(stream, "flush", flush_and_draw)]
        except AttributeError:  # a stream that takes no attributes is left as it is
            return []

    def _draw(self) -> None:
        """Write the lines, if the cursor is where it can be told and they fit the terminal."""
        size = self._terminal_size
        if self._is_closed or self._is_paused or self._is_unflushed or not self._lines:
            return
        if size != self.size() or not self._line.has_room(size.columns) or not is_in_foreground(self._fd):
            return
        rows = "".join(f"\r\n{line}{ERASE_LINE}" for line in self._lines)
        count = len(self._lines)
        self._is_drawn = True
        # What is right of the cursor may be a line of the panel, where somebody pressed Enter.
        self._send(f"{ERASE_LINE}{DOWN * count}{UP.format(count)}{SAVE}{rows}{RESTORE}")

    def _erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._send(ERASE_BELOW)

    def _send(self, text: str) -> None:
        data = text.encode(self._encoding, "replace")
        while data:
            data = data[os.write(self._fd, data) :]


def _replace(stream: Any, name: str, function: Callable[..., Any]) -> Callable[[], None]:
    """Put a function in the place of a stream's method; give the undoing, which spares what came over it."""
    before = vars(stream).get(name)
    setattr(stream, name, function)

    def undo() -> None:
        if vars(stream).get(name) is not function:
            return
        if before is None:
            delattr(stream, name)
        else:
            setattr(stream, name, before)

    return undo


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
        from pytest_agenteval.session.run_progress import RunProgress

        writer = reporter._tw
        self._colours = bool(writer.hasmarkup)
        self._ascii_only = "utf" not in str(getattr(writer._file, "encoding", "")).lower()
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
                now = time.monotonic()
                self._progress.update(now)
                size = self._rows.size()
                is_shown = now >= self._first_display_at and self._progress.is_going_on
                self._rows.show(self._lines(now, size) if is_shown else [], size)
        except OSError:  # the terminal is gone, or the run's folder: the run goes on without
            pass
        finally:  # a mistake of ours, too, must not stay on the terminal; pytest tells it as a warning
            self._rows.close()

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


def _other_terminals() -> Iterable[Any]:
    """Give the streams of this process that lead to a terminal, which is as a rule the same."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None and _is_capable(stream):
            yield stream

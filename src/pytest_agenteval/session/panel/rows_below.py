"""The rows of a terminal below the line that pytest is writing: a panel may stand there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import RLock, get_ident
from typing import Any

from pytest_agenteval.processes.signals import is_in_foreground
from pytest_agenteval.session.panel.current_line import CurrentLine

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
                self._make_room(text)
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

    def _make_room(self, text: str) -> None:
        columns = self._terminal_size.columns
        if self._is_drawn and self._line.is_left_by(text, columns):
            self._erase()
        self._line.take(text, columns)
        self._is_unflushed = not text.endswith("\n")

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

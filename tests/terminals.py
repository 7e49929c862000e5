"""Terminals to run pytest on, and what they show: a pseudo-terminal with an emulator behind it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import pyte

from tests.forked_workers import start_python

TIMES = re.compile(r"in \d+\.\d+s|\d+\.\d s\b|\d{8}-\d{6}-[0-9a-f]{4}")
"""What no two runs print alike: durations, and names of runs."""


class Terminal:
    """A pseudo-terminal of so many columns and rows; ``its`` is the end that a program writes to."""

    def __init__(self, columns: int, rows: int = 40) -> None:
        self.ours, self.its = pty.openpty()
        self.written = b""
        self.screen = pyte.HistoryScreen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self.screen)
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        """Tell whoever asks that the terminal is so large."""
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float = 0.0) -> bool:
        """Take all that was written, waiting for it at most so long; False once the other end is closed."""
        while select.select([self.ours], [], [], seconds)[0]:
            if not self.read_piece():
                return False
            seconds = 0.0
        return True

    def read_piece(self, most: int = 65536) -> bool:
        """Take at most so many bytes, and wait for the first; False once the other end is closed."""
        try:
            piece = os.read(self.ours, most)
        except OSError:  # how Linux says that nobody has the other end any more
            return False
        self.written += piece
        self._stream.feed(piece)
        return bool(piece)

    def lines(self) -> list[str]:
        """Give all lines, those that have scrolled away too, without what stands empty at their ends."""
        columns = range(self.screen.columns)
        rows = [*self.screen.history.top, *(self.screen.buffer[row] for row in range(self.screen.lines))]
        lines = ["".join(row[at].data for at in columns).rstrip() for row in rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def close(self) -> None:
        """Give both ends back."""
        for end in (self.ours, self.its):
            try:
                os.close(end)
            except OSError:
                continue


class PytestOnTerminal:
    """A pytest that runs on a terminal of its own, as a person starts it there."""

    def __init__(
        self,
        root: Path,
        columns: int,
        args: Sequence[str],
        program: Sequence[str] = ("-m", "pytest"),
        **environment: str,
    ) -> None:
        self.terminal = Terminal(columns)
        env = {**os.environ, "TERM": "xterm-256color", **environment}
        env.pop("COLUMNS", None)
        end = self.terminal.its
        # A group of its own, whose parent is not of it: nobody else can be stopped as by Ctrl-Z.
        self.process = start_python(
            *program, *args, cwd=root, stdin=end, stdout=end, stderr=end, env=env, process_group=0
        )
        os.close(end)

    def wait_for(self, *texts: str, seconds: float = 30.0) -> list[str]:
        """Wait until all of these texts are on the screen; give the screen's lines then.

        What was written meanwhile is looked at piece by piece: the text may be gone again.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if select.select([self.terminal.ours], [], [], 0.05)[0] and not self.terminal.read_piece(256):
                break
            lines = self.terminal.lines()
            if all(any(text in line for line in lines) for text in texts):
                return lines
        raise AssertionError(f"{texts} were never shown:\n" + "\n".join(self.terminal.lines()))

    def end(self, seconds: float = 60.0) -> list[str]:
        """Wait for the end; give all lines that stand then, with what no two runs have alike left out."""
        until = time.monotonic() + seconds
        while self.terminal.read(0.05):
            assert time.monotonic() < until, "\n".join(self.terminal.lines())
        self.process.wait(10)
        os.close(self.terminal.ours)
        return [re.sub(r"=+ | =+", "== ", TIMES.sub("", line)) for line in self.terminal.lines()]

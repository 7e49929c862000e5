"""A program of the user's as a process: started, written to, read line by line, ended with all it started."""

from __future__ import annotations

import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pytest_agenteval.processes.process_groups import (
    GROUP,
    disown_group,
    end_group,
    own_group,
    prepare_to_own,
)
from pytest_agenteval.text.errors import TrialBroken

GRACE_S = 5.0
"""Seconds that a program, and whatever it started, has to end once it is asked to."""
MOST_BYTES = 10_000_000
"""What a program may write to its standard output, and to its standard error, until the rest is cut."""
LAST_LINES = 20
"""Lines of standard error that are told of a program that failed."""
CHUNK = 65536
LEFT_OPEN_S = 2.0
"""Seconds in which output is waited for once all are ended: what got away may hold it open for ever."""

TakeLine = Callable[[str], object]


class NotStarted(TrialBroken):
    """A command that is no program of this system, or may not be executed."""

    cause = "agent"


class CommandProcess:
    """One run of a program, in a process group of its own.

    Lines of both outputs are given, in threads of their own, to ``take_output`` and ``take_error``; ``cut``
    names the outputs of which not all was read, ``broken`` is what one of the two raised: what follows is
    read all the same, or the program would wait for ever. ``mark`` is ``NAME=value`` of its environment, by
    which what leaves its group is known.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        mark: str,
        take_output: TakeLine,
        take_error: TakeLine,
    ) -> None:
        self.cut: list[str] = []
        self.broken: Exception | None = None
        self.last_errors: deque[str] = deque(maxlen=LAST_LINES)
        self._mark = mark
        prepare_to_own()
        try:
            self._process = subprocess.Popen(
                list(command),
                cwd=folder,
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                **GROUP,
            )
        except (OSError, ValueError) as refused:  # ValueError: a zero byte in a name
            raise NotStarted(f"the command {command[0]!r} cannot be started: {refused}") from None
        own_group(self._process)

        def take_and_keep(line: str) -> None:
            self.last_errors.append(line)
            take_error(line)

        self._readers = [
            self._reader("standard output", self._process.stdout, take_output),
            self._reader("standard error", self._process.stderr, take_and_keep),
        ]

    @property
    def status(self) -> int | None:
        """Its exit status, below 0 for a signal; None while it runs."""
        return self._process.returncode

    def wait(self) -> int:
        """Wait until it has ended, and give its exit status."""
        return self._process.wait()

    def write_line(self, text: str) -> None:
        """Write a line to its standard input; nothing where it reads no more."""
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.write(text.encode() + b"\n")
                self._process.stdin.flush()

    def close_input(self) -> None:
        """Say that nothing more is written."""
        if self._process.stdin is not None:
            with suppress(OSError, ValueError):
                self._process.stdin.close()

    def end(self) -> None:
        """End it and what it started, asked first, forced after a while; read what is left of its output."""
        try:
            end_group(self._process, GRACE_S, self._mark)
        finally:
            disown_group(self._process)
        # What got away may hold its input open too, and read none of it: then the line is never written.
        closing = threading.Thread(target=self.close_input, name="agenteval-command", daemon=True)
        closing.start()
        for thread in (closing, *self._readers):
            thread.join(LEFT_OPEN_S)

    def _reader(self, name: str, stream: IO[bytes] | None, take: TakeLine) -> threading.Thread:
        thread = threading.Thread(
            target=self._read, args=(name, stream, take), name="agenteval-command", daemon=True
        )
        thread.start()
        return thread

    def _read(self, name: str, stream: Any, take: TakeLine) -> None:
        left = MOST_BYTES
        with stream:
            while left > 0 and (line := stream.readline(left)):
                left -= len(line)
                try:
                    take(line.decode("utf-8", "replace").rstrip("\r\n"))
                except Exception as broken:
                    self.broken = self.broken or broken
            if stream.read(1):
                self.cut.append(name)
                while stream.read1(CHUNK):
                    pass

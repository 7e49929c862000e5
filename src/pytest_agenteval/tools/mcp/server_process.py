"""A server that was started by a command: its pipes, its last words, and its end with all that it started."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path

from pytest_agenteval.processes.processes import GROUP, end_group
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.text.errors import McpServerDown, NoKey
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

PASSED_ON = frozenset(
    {
        *(
            "PATH",
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "TERM",
            "LANG",
            "LC_ALL",
            "TZ",
            "TMPDIR",
            "TEMP",
            "TMP",
        ),
        *("APPDATA", "LOCALAPPDATA", "HOMEDRIVE", "HOMEPATH", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE"),
    }
)
"""Variables that every server is given; it gets no other, so no key, unless its ``env`` names it."""

CLOSING_S = 1.0
"""Seconds for a server to end by itself once nobody writes to it any more, then again once it was told to."""

LAST_LINES = 10
LONGEST_LINE = 4096
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class ServerProcess:
    """A server that runs, in a process group of its own.

    Raises McpServerDown where it cannot be started, and NoKey where a variable that it is given is not set.
    """

    def __init__(self, server: McpServer) -> None:
        folder, variables = Path(server.folder, server.cwd), _environment(server)
        command = [filled_in(part, server) for part in server.command]
        try:
            self._process = subprocess.Popen(
                [_program(command[0], folder, variables["PATH"]), *command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=variables,
                **GROUP,
            )
        except OSError as why:
            raise McpServerDown(f"the MCP server `{server.title}` cannot be started: {why}") from None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._end_at_exit = partial(end_group, self._process, 0.0)
        atexit.register(self._end_at_exit)  # for a run that nobody lets come to its end
        self._last_lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._reading = threading.Thread(target=self._read_errors, name="agenteval-mcp-stderr", daemon=True)
        self._reading.start()

    async def read_line(self) -> bytes:
        """Give the next line of its output; nothing once it is gone."""
        return await in_daemon_thread(self._output.readline)

    async def write(self, line: bytes) -> None:
        """Send it a line; raises OSError once it is gone."""
        await in_daemon_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        self._input.write(line)
        self._input.flush()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in iter(lambda: self._process.stderr.readline(LONGEST_LINE), b""):  # type: ignore[union-attr]
            self._last_lines.append(line)

    def end(self, patience_s: float) -> None:
        """End it, and all that it started: by closing its input and, so many seconds later, by signals."""
        with suppress(OSError):  # it is gone, with something unread
            self._input.close()
        self._wait(patience_s)
        end_group(self._process, CLOSING_S)
        atexit.unregister(self._end_at_exit)

    def ending(self, patience_s: float) -> str:
        """Say how it ended, if it does within so many seconds, and what its last lines of errors are."""
        status = self._wait(patience_s)
        if status is not None:
            self._reading.join(CLOSING_S)  # what it started may hold the pipe open
        lines = b"".join(self._last_lines).decode("utf-8", "replace").splitlines()
        ended = "" if status is None else f" (exit status {status})"
        return "\n  ".join([f"{ended}; the last lines of its standard error:", *lines]) if lines else ended

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def filled_in(text: str, server: McpServer) -> str:
    """Put the values of environment variables where ``${NAME}`` stands; raises NoKey for one not set."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        KNOWN_SECRETS.know_variables((name,))
        if name not in os.environ:
            raise NoKey(f"the MCP server `{server.title}` is given ${name}: not set")
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def _environment(server: McpServer) -> dict[str, str]:
    """Give what a server is to know of ours, with the programs beside this Python found first."""
    passed_on = {name: value for name, value in os.environ.items() if name.upper() in PASSED_ON}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    own = {name: filled_in(value, server) for name, value in server.env.items()}
    return {**passed_on, "PATH": path, **own}


def _program(name: str, folder: Path, path: str) -> str:
    """Find a program: beside the suite, or on the path."""
    beside = folder / name
    return str(beside) if beside.is_file() else shutil.which(name, path=path) or name

"""Running MCP servers: started at the first call, called from any loop, ended with their trial or run."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pytest_agenteval.cassettes.http.patch_system import without_socket_guard
from pytest_agenteval.processes.process_groups import GROUP, end_group
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.text.errors import AgentEvalError, McpServerDown, NoKey
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.tools import mcp_client
from pytest_agenteval.tools.mcp_client import (
    ConnectionLost,
    InvalidResult,
    RequestRejected,
    ServedTool,
    Session,
    Transport,
    first_error_line,
    read_result,
    read_served_tool,
)
from pytest_agenteval.tools.tool import ToolFailed

T = TypeVar("T")

# Seconds that cancelled tasks may take to end.
CANCELLING_S = 1.0


class LoopThread:
    """A loop in a thread that starts with the first work for it.

    The thread belongs to no trial; a coroutine that is submitted with a trial's context does.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, work: Coroutine[Any, Any, T], context: contextvars.Context | None = None) -> Future[T]:
        """Run a coroutine there, in a copy of the context, or in an empty one without it."""
        with self._starting:
            loop = self._loop or self._start()
        within = contextvars.Context() if context is None else context.copy()
        return within.run(asyncio.run_coroutine_threadsafe, work, loop)

    def _start(self) -> asyncio.AbstractEventLoop:
        # A new loop opens a pair of sockets to wake itself, which pytest-socket would refuse during a test.
        with without_socket_guard():
            self._loop = loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=loop.run_forever, name=self._name, daemon=True)
        contextvars.Context().run(self._thread.start)
        return loop

    def close(self) -> None:
        """Cancel what still runs there, and end the thread; a second call does nothing."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:

            async def cancel_others() -> None:
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                if others:
                    await asyncio.wait(others, timeout=CANCELLING_S)

            asyncio.run_coroutine_threadsafe(cancel_others(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


# fmt: off
# Variables that every server inherits. It receives no others, and so no keys, unless its ``env`` names them.
INHERITED_VARIABLES = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "TMP",
    "APPDATA", "LOCALAPPDATA", "HOMEDRIVE", "HOMEPATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES",
    "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE",
})
# fmt: on

# Seconds in which a server should end after its input is closed, and again after a signal.
CLOSING_S = 1.0

LAST_LINES = 10
LONGEST_LINE = 4096
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class ServerProcess:
    """A server that runs, in a process group of its own.

    Raises McpServerDown if it cannot be started, and NoKey if a variable that it should get is not set.
    """

    def __init__(self, server: McpServer) -> None:
        folder, variables = Path(server.folder, server.cwd), _environment(server)
        command = [fill_variables(part, server) for part in server.command]
        beside = folder / command[0]  # a program beside the suite goes before one on the path
        found = shutil.which(command[0], path=variables["PATH"]) or command[0]
        program = str(beside) if beside.is_file() else found
        try:
            self._process = subprocess.Popen(
                [program, *command[1:]],
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
        atexit.register(self._end_at_exit)  # for a run that is cut short
        self._last_lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._reading = threading.Thread(target=self._read_errors, name="agenteval-mcp-stderr", daemon=True)
        self._reading.start()

    async def read_line(self) -> bytes:
        """Give the next line of the server's output; empty once the server has ended."""
        return await in_daemon_thread(self._output.readline)

    async def write(self, line: bytes) -> None:
        """Send a line to the server; raises OSError once it has ended."""
        await in_daemon_thread(self._write, line)

    def _write(self, line: bytes) -> None:
        self._input.write(line)
        self._input.flush()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        # Read all the time, since a full pipe would block the server.
        for line in iter(lambda: self._process.stderr.readline(LONGEST_LINE), b""):  # type: ignore[union-attr]
            self._last_lines.append(line)

    def end(self, patience_s: float) -> None:
        """End it and all that it started: close its input and, ``patience_s`` seconds later, send signals."""
        with suppress(OSError):  # it is gone, with something unread
            self._input.close()
        self._wait(patience_s)
        end_group(self._process, CLOSING_S)
        atexit.unregister(self._end_at_exit)

    def ending(self, patience_s: float) -> str:
        """Give its exit status, if it ends within so many seconds, and the last lines of its errors."""
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


def fill_variables(text: str, server: McpServer) -> str:
    """Replace ``${NAME}`` by the environment variable's value; raises NoKey if it is not set."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        # Before the value is used, so that it cannot appear in any record.
        KNOWN_SECRETS.know_variables((name,))
        if name not in os.environ:
            raise NoKey(f"the MCP server `{server.title}` needs ${name}, which is not set")
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def _environment(server: McpServer) -> dict[str, str]:
    """Give a server's environment: some of ours, its own, and a PATH that begins beside this Python."""
    passed_on = {name: value for name, value in os.environ.items() if name.upper() in INHERITED_VARIABLES}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    own = {name: fill_variables(value, server) for name, value in server.env.items()}
    return {**passed_on, "PATH": path, **own}


# The error type of a call that the server answered with an error of the protocol.
MCP_ERROR = "mcp_error"
# Seconds that a server may take to start, or longer if its calls may: some servers are downloaded first.
START_S = 60.0


class RunningServer:
    """One server and its session. It starts at its first request, and is used on its loop only."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._process: ServerProcess | None = None
        self._serving: asyncio.Task[None] | None = None
        self._session: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._session.add_done_callback(_ignore_exception)
        self._declarations: list[dict[str, Any]] = []
        self._patience_s = CLOSING_S
        self._status = 0  # of the last response, from a server at an address
        self.lost: McpServerDown | None = None

    async def tools(self) -> list[ServedTool]:
        """Give the tools that the server offers; raises McpServerDown."""
        await self.session()
        return [read_served_tool(tool) for tool in self._declarations]

    async def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Call a tool and give the result's value.

        Raises ToolFailed for an error that the server reports, and McpServerDown if it does not answer.
        """
        session = await self.session()
        calling = mcp_client.call_tool(session, name, args)
        try:
            answer = await self._within_seconds(f"answer {name}", calling, self._server.seconds)
        except asyncio.CancelledError:
            self._patience_s = 0.0  # it still works on a call that nobody waits for
            raise
        return read_result(answer)

    async def session(self) -> Session:
        """Give the session, which the first caller opens; raises McpServerDown."""
        if self.lost is not None:
            raise self.lost
        if self._serving is None:
            self._serving = asyncio.get_running_loop().create_task(self._serve())
        starting = asyncio.shield(self._session)
        return await self._within_seconds("start", starting, max(self._server.seconds, START_S))

    async def end(self) -> None:
        """Close the session and end the server, if it was started."""
        if self._serving is not None:
            self._serving.cancel()
            await asyncio.wait([self._serving], timeout=CLOSING_S)
            self._session.cancel()
        if self._process is not None:
            await in_daemon_thread(self._process.end, 0.0 if self.lost else self._patience_s)

    async def _serve(self) -> None:
        try:
            # The package requires that one task opens and closes a session, so this task does both.
            async with mcp_client.session_over(self._transport()) as session:
                # Needed for calls, too: the package checks results by the tools that it has listed.
                self._declarations = await mcp_client.list_tools(session)
                self._session.set_result(session)
                await asyncio.get_running_loop().create_future()
        except Exception as raised:
            if not self._session.done():
                self._session.set_exception(await self._reason(raised))

    def _transport(self) -> Transport:
        server = self._server
        if server.command:
            self._process = process = ServerProcess(server)
            return mcp_client.line_streams(process.read_line, process.write)
        headers = {name: fill_variables(value, server) for name, value in server.headers.items()}

        def on_status(status: int) -> None:
            self._status = status

        return mcp_client.http_streams(fill_variables(server.url, server), headers, on_status)

    async def _within_seconds(self, what: str, answer: Awaitable[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except RequestRejected as refused:
            raise ToolFailed(str(refused), MCP_ERROR) from None
        except TimeoutError:
            raise await self._down(f"did not {what} within {seconds:g} s", patience_s=0) from None
        except InvalidResult as invalid:
            raise await self._down(
                f"did not {what} as the protocol says", str(invalid), patience_s=0
            ) from None
        except ConnectionLost as lost:
            raise await self._down(f"was gone before it could {what}", str(lost)) from None

    async def _reason(self, raised: BaseException) -> AgentEvalError:
        while isinstance(raised, BaseExceptionGroup):
            raised = raised.exceptions[0]
        if isinstance(raised, AgentEvalError):
            return raised
        return await self._down("did not start", first_error_line(raised))

    async def _down(self, what: str, reason: str = "", patience_s: float = CLOSING_S) -> McpServerDown:
        ending = ""
        if self._process is not None:
            ending = await in_daemon_thread(self._process.ending, patience_s)
        if reason and not ending:
            # The package says only that there was an error, and not that a key was refused.
            ending = f": {reason}" + (f" (HTTP {self._status})" if self._status >= 400 else "")
        self.lost = McpServerDown(f"the MCP server `{self._server.title}` {what}{ending}")
        return self.lost


def _ignore_exception(session: asyncio.Future[Session]) -> None:
    """Retrieve the exception, so that asyncio does not log that nobody did."""
    if not session.cancelled():
        session.exception()


class ServerPool:
    """The servers of one trial, or those that all trials of a process share; each starts at its first use.

    A server that was lost is started again if the pool ``restarts``. Else it stays lost: its state is gone,
    and a new one could not continue where it stopped.
    """

    def __init__(self, loop: LoopThread, *, restarts: bool = False) -> None:
        self._loop, self._restarts = loop, restarts
        self._in_use = False
        self._running: dict[McpServer, RunningServer] = {}
        self._lost: list[RunningServer] = []
        self._ending: list[asyncio.Task[None]] = []

    def start(self, server: McpServer) -> Future[Session]:
        """Start the server, unless it runs already."""
        return self._on_server(server, RunningServer.session)

    def call(self, server: McpServer, name: str, args: Mapping[str, Any]) -> Future[Any]:
        return self._on_server(server, lambda running: running.call(name, args))

    def tools(self, server: McpServer) -> Future[list[ServedTool]]:
        return self._on_server(server, RunningServer.tools)

    def close(self) -> Future[None]:
        """End all servers, also those that are starting."""
        if self._in_use:
            return self._loop.submit(self._end())
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return nothing

    def _on_server(self, server: McpServer, work: Callable[[RunningServer], Awaitable[T]]) -> Future[T]:
        async def on_loop() -> T:
            running = self._running.get(server)
            if running is not None and running.lost and self._restarts:
                self._lost.append(self._running.pop(server))
                running = None
            if running is None:
                running = self._running[server] = RunningServer(server)
            return await work(running)

        self._in_use = True
        return self._loop.submit(on_loop())

    async def _end(self) -> None:
        running, self._running, self._lost = (*self._running.values(), *self._lost), {}, []
        self._ending += [asyncio.get_running_loop().create_task(each.end()) for each in running]
        if self._ending:  # also those of a call that was cancelled: their ends go on
            await asyncio.wait(self._ending)


def list_served_tools(server: McpServer) -> list[ServedTool]:
    """Start a server, list its tools, and end it; raises McpServerDown or NoKey."""
    loop = LoopThread("agenteval-mcp-listing")
    servers = ServerPool(loop)
    try:
        return servers.tools(server).result()
    finally:
        servers.close().result()
        loop.close()

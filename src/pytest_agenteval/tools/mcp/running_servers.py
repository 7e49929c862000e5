"""Servers while they run: started at the first call, asked from any loop, ended with their trial or run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.text.errors import AgentEvalError, McpServerDown
from pytest_agenteval.tools.mcp import client
from pytest_agenteval.tools.mcp.answers import ServedTool, read_result, read_tool
from pytest_agenteval.tools.mcp.client import (
    ConnectionLost,
    NoResult,
    Refused,
    Session,
    Transport,
    first_mistake,
)
from pytest_agenteval.tools.mcp.loop_thread import LoopThread
from pytest_agenteval.tools.mcp.server_process import CLOSING_S, ServerProcess, filled_in
from pytest_agenteval.tools.tool import ToolFailed

T = TypeVar("T")
MCP_ERROR = "mcp_error"
"""The type of a call's error where a server answered with an error of the protocol."""
START_S = 60.0
"""Seconds that a server has to start, unless its calls may take longer: some are fetched first."""


class RunningServer:
    """One server and the session with it, from the first thing that it is asked on; used on its loop only."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._process: ServerProcess | None = None
        self._serving: asyncio.Task[None] | None = None
        self._session: asyncio.Future[Session] = asyncio.get_running_loop().create_future()
        self._session.add_done_callback(_retrieve)
        self._declarations: list[dict[str, Any]] = []
        self._patience_s = CLOSING_S
        self.lost: McpServerDown | None = None

    async def tools(self) -> list[ServedTool]:
        """Ask which tools it has; raises McpServerDown."""
        await self.session()
        return [read_tool(tool) for tool in self._declarations]

    async def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Have a tool called and give the result's value.

        Raises ToolFailed for what the server says went wrong, and McpServerDown where it says nothing.
        """
        session = await self.session()
        calling = client.call_tool(session, name, args)
        try:
            answer = await self._within_seconds(f"answer {name}", calling, self._server.seconds)
        except asyncio.CancelledError:
            self._patience_s = 0.0  # it is at work on what nobody waits for
            raise
        return read_result(answer)

    async def session(self) -> Session:
        """Give the session, opened by whoever needs it first; raises McpServerDown."""
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
        """Hold the session open: the package wants it opened and closed by one task."""
        try:
            client.check_installed()
            async with client.session_over(self._transport()) as session:
                self._declarations = await client.list_tools(session)  # by which the package checks results
                self._session.set_result(session)
                await asyncio.get_running_loop().create_future()
        except Exception as raised:
            if not self._session.done():
                self._session.set_exception(await self._reason(raised))

    def _transport(self) -> Transport:
        server = self._server
        if server.command:
            self._process = process = ServerProcess(server)
            return client.line_streams(process.read_line, process.write)
        headers = {name: filled_in(value, server) for name, value in server.headers.items()}
        return client.http_streams(filled_in(server.url, server), headers)

    async def _within_seconds(self, what: str, answer: Awaitable[T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except Refused as refused:
            raise ToolFailed(str(refused), MCP_ERROR) from None
        except TimeoutError:
            raise await self._down(f"did not {what} within {seconds:g} s", patience_s=0) from None
        except NoResult as odd:
            raise await self._down(f"did not {what} as the protocol says", str(odd), patience_s=0) from None
        except ConnectionLost as lost:
            raise await self._down(f"was gone before it could {what}", str(lost)) from None

    async def _reason(self, raised: BaseException) -> AgentEvalError:
        while isinstance(raised, BaseExceptionGroup):
            raised = raised.exceptions[0]
        if isinstance(raised, AgentEvalError):
            return raised
        return await self._down("did not start", first_mistake(raised))

    async def _down(self, what: str, reason: str = "", patience_s: float = CLOSING_S) -> McpServerDown:
        ending = ""
        if self._process is not None:
            ending = await in_daemon_thread(self._process.ending, patience_s)
        if reason and not ending:
            ending = f": {reason}"
        self.lost = McpServerDown(f"the MCP server `{self._server.title}` {what}{ending}")
        return self.lost


def _retrieve(session: asyncio.Future[Session]) -> None:
    """Look at what came of it, so that asyncio does not complain that nobody did."""
    if not session.cancelled():
        session.exception()


class Servers:
    """The servers of one trial, or those that all trials of a process share; each runs once it is asked.

    One that was lost is started anew where it ``restarts``; else what it knew is lost too, and so it stays.
    """

    def __init__(self, loop: LoopThread, *, restarts: bool = False) -> None:
        self._loop, self._restarts = loop, restarts
        self._in_use = False
        self._running: dict[McpServer, RunningServer] = {}
        self._lost: list[RunningServer] = []
        self._ending: list[asyncio.Task[None]] = []

    def start(self, server: McpServer) -> Future[Session]:
        """Have the server started, if it does not run yet."""
        return self._submit(self._start(server))

    def call(self, server: McpServer, name: str, args: Mapping[str, Any]) -> Future[Any]:
        """Have a tool of the server called."""
        return self._submit(self._call(server, name, args))

    def tools(self, server: McpServer) -> Future[list[ServedTool]]:
        """Have the server say which tools it has."""
        return self._submit(self._list(server))

    def close(self) -> Future[None]:
        """End all of them, those too that are about to start."""
        if self._in_use:
            return self._loop.submit(self._end())
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return nothing

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        self._in_use = True
        return self._loop.submit(work)

    def _one(self, server: McpServer) -> RunningServer:
        running = self._running.get(server)
        if running is not None and running.lost and self._restarts:
            self._lost.append(self._running.pop(server))
            running = None
        if running is None:
            running = self._running[server] = RunningServer(server)
        return running

    async def _start(self, server: McpServer) -> Session:
        return await self._one(server).session()

    async def _call(self, server: McpServer, name: str, args: Mapping[str, Any]) -> Any:
        return await self._one(server).call(name, args)

    async def _list(self, server: McpServer) -> list[ServedTool]:
        return await self._one(server).tools()

    async def _end(self) -> None:
        running, self._running, self._lost = (*self._running.values(), *self._lost), {}, []
        self._ending += [asyncio.get_running_loop().create_task(each.end()) for each in running]
        if self._ending:  # also by a trial that was cancelled meanwhile: they are ended all the same
            await asyncio.wait(self._ending)


def list_tools(server: McpServer) -> list[ServedTool]:
    """Start a server, ask which tools it has, and end it; raises McpServerDown, NoKey or NotInstalled."""
    loop = LoopThread("agenteval-mcp-listing")
    servers = Servers(loop)
    try:
        return servers.tools(server).result()
    finally:
        servers.close().result()
        loop.close()

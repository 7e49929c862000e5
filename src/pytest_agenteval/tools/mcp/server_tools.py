"""From what a server offers to tools that a trial can call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tasks.agent_specs import ServedTools
from pytest_agenteval.text.errors import McpServerDown
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS
from pytest_agenteval.tools.http.schema_check import wrong_in
from pytest_agenteval.tools.mcp.answers import ServedTool
from pytest_agenteval.tools.mcp.loop_thread import LoopThread
from pytest_agenteval.tools.mcp.recorded_schemas import SchemaSource, schema_cassette
from pytest_agenteval.tools.mcp.running_servers import START_S, Servers
from pytest_agenteval.tools.tool import Tool

_LONGEST_NAME = 64
"""Characters that providers of models take for a tool's name."""


@dataclass(frozen=True, slots=True)
class McpTool(Tool):
    """A tool of a server, where it goes by ``served_name``; to be called it needs the servers of a trial."""

    server: McpServer = McpServer()
    served_name: str = ""


def server_of(entry: ServedTools, folder: Path, recordings: str) -> McpServer:
    """Make the server of an entry of the suite in this folder, whose own recordings lie at ``recordings``."""
    where = entry.mcp
    server = McpServer(
        command=where.command,
        url=where.url,
        env=where.env,
        headers=where.headers,
        folder=str(folder),
        cwd=where.cwd,
        only=entry.only,
        prefix=entry.prefix,
        share=entry.share,
        seconds=entry.seconds,
    )
    return msgspec.structs.replace(server, schemas=schema_cassette(recordings, server))


def tools_of_server(server: McpServer, served: Iterable[ServedTool]) -> dict[str, McpTool]:
    """Give those of a server's tools that are offered, by the names that models are told."""
    know_secrets(server)
    return {tool.spec.name: tool for tool in _offered(server, served)}


def equal_names(server: McpServer, served: Iterable[ServedTool]) -> Iterator[tuple[str, str, str]]:
    """Give each name that two of a server's own tools has for models, and what these are called."""
    first: dict[str, str] = {}
    for tool in _offered(server, served):
        other = first.setdefault(tool.spec.name, tool.served_name)
        if other != tool.served_name:
            yield tool.spec.name, other, tool.served_name


def _offered(server: McpServer, served: Iterable[ServedTool]) -> Iterator[McpTool]:
    return (_tool(server, each) for each in served if not server.only or each.name in server.only)


def recorded_tools(server: McpServer) -> dict[str, McpTool]:
    """Give the tools of a server that was planned with: what it offers is recorded by then."""
    return tools_of_server(server, SchemaSource(Path(server.folder)).tools_of(server))


def know_secrets(server: McpServer) -> None:
    """Take for secrets what its name tells to be one; values of variables are known once filled in."""
    KNOWN_SECRETS.know_environment(_as_written(server.env))
    KNOWN_SECRETS.know_headers(_as_written(server.headers))
    KNOWN_SECRETS.know_address(server.url)


def _as_written(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if "${" not in value}


def _tool(server: McpServer, served: ServedTool) -> McpTool:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", server.prefix + served.name)[:_LONGEST_NAME]
    sound = next(iter(wrong_in(served.parameters)), None) is None
    spec = ToolSpec(
        name, served.description.strip(), served.parameters, checked=sound, taped=True, blocking=False
    )
    return McpTool(spec, _of_no_trial, server=server, served_name=served.name)


def _of_no_trial(args: Mapping[str, Any]) -> Any:
    raise McpServerDown("a tool of an MCP server can be called within a trial only")


class ProcessServers:
    """All servers of a process: those that its trials share, and those that each has for itself."""

    def __init__(self) -> None:
        self._loop = LoopThread("agenteval-mcp")
        self._shared = Servers(self._loop, restarts=True)
        self._of_trials: set[Servers] = set()

    def of_trial(self, budget: Budget) -> TrialServers:
        """Give the servers of one trial."""
        own = Servers(self._loop)
        self._of_trials.add(own)
        return TrialServers(own, self._shared, budget, self._of_trials.discard)

    async def close(self) -> None:
        """End those that were shared, and those of trials that were cut off; then nothing more is asked."""
        for servers in (self._shared, *self._of_trials):
            await asyncio.wrap_future(servers.close())
        self._loop.close()


class TrialServers:
    """The servers that one trial asks: its own, and those that it shares with all trials of the process."""

    def __init__(
        self, own: Servers, shared: Servers, budget: Budget, on_closed: Callable[[Servers], object]
    ) -> None:
        self._own, self._shared, self._budget, self._on_closed = own, shared, budget, on_closed

    def connect(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """Give the tools such that calling one asks its server, which is started at its first call.

        The start is no second of the trial's.
        """
        return {name: self._connected(tool) for name, tool in tools.items()}

    def _connected(self, tool: Tool) -> Tool:
        return replace(tool, function=partial(self._ask, tool)) if isinstance(tool, McpTool) else tool

    async def _ask(self, tool: McpTool, args: Mapping[str, Any]) -> Any:
        servers = self._shared if tool.server.share == "session" else self._own
        with self._budget.held_up(START_S):
            await asyncio.wrap_future(servers.start(tool.server))
        return await asyncio.wrap_future(servers.call(tool.server, tool.served_name, args))

    async def close(self) -> None:
        """End the trial's own servers."""
        await asyncio.wrap_future(self._own.close())
        self._on_closed(self._own)

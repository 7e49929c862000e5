"""Tools of MCP servers: a server's list of tools is recorded once, so that a replay starts no server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.interaction import tool_answer, tool_request, tool_response
from pytest_agenteval.cassettes.tape import Library, Tape
from pytest_agenteval.processes.files import file_lock, portable_name
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.tasks.task_spec import ServedTools
from pytest_agenteval.text.errors import McpServerDown
from pytest_agenteval.text.redaction import KNOWN_SECRETS
from pytest_agenteval.tools.http_declaration import schema_problems
from pytest_agenteval.tools.mcp_client import ServedTool, read_served_tool
from pytest_agenteval.tools.mcp_servers import LoopThread, ServerPool
from pytest_agenteval.tools.tool import Tool

MOST_OF_NAME = 80


class SchemaNotRecorded(Exception):
    """No cassette holds a server's tools; ``why`` it may not be started, and which ``mode`` records them."""

    def __init__(self, file: str, why: str, mode: RecordMode) -> None:
        super().__init__(file, why, mode)
        self.file, self.why, self.mode = file, why, mode


class SchemaSource(FrozenValue, frozen=True):
    """Looks up the tools of servers in cassettes below a root.

    ``mode`` says whether a server may be started to record its tools. ``started`` is when the run began, in
    seconds since 1970: workers use it to tell recordings of this run from older ones.
    """

    root: Path
    mode: RecordMode = "none"
    started: float | None = None

    def tools_of(self, server: McpServer) -> tuple[ServedTool, ...]:
        """Give a server's tools as recorded; without a recording, start the server if that is allowed.

        Raises SchemaNotRecorded, and the errors of a server that does not answer.
        """
        identity = {"command": list(server.command), "cwd": server.cwd, "url": server.url}
        # As the suite writes them, with ${NAME} in place of the values of variables.
        request = tool_request("tools/list", {name: value for name, value in identity.items() if value})
        tape = self._tape(server)
        recorded = tape.find((request,))
        if recorded is None and tape.recording:
            path = tape.cassette.path
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not the cassette's own lock, which saving takes. xdist's workers
            # collect at the same time, and only one of them starts the server.
            with file_lock(path.with_suffix(".server")):
                tape = self._tape(server)
                recorded = tape.find((request,))
                if recorded is None:
                    from pytest_agenteval.tools.mcp_servers import list_served_tools

                    declared = [
                        {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
                        for tool in list_served_tools(server)
                    ]
                    tape.record(request, tool_response(declared))
                    tape.cassette.save()
                    recorded = tape.cassette.interactions[-1]  # redacted, as every replay will see it
        if recorded is None:
            there = tape.cassette.path.exists()
            why = f"{self.mode}, and the file already exists" if self.mode != "none" else "replay"
            raise SchemaNotRecorded(tape.cassette.name, why, "new_episodes" if there else "once")
        return tuple(map(read_served_tool, tool_answer(recorded.response).result))

    def _tape(self, server: McpServer) -> Tape:
        return Library(self.root, started=self.started).open(Path(server.schemas), self.mode, "tool")


@dataclass(frozen=True, slots=True)
class McpTool(Tool):
    """A tool of a server, which calls it ``served_name``; a call needs the servers of a trial."""

    server: McpServer = McpServer()
    served_name: str = ""


def server_of(entry: ServedTools, folder: Path, recordings: str) -> McpServer:
    """Make the server of a suite's entry; the suite's own recordings are at ``recordings``."""
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
    # What the server offers is recorded beside the suite's own recordings.
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", server.title).strip("-.")
    if len(words) > MOST_OF_NAME:  # what tells servers apart stands at the end
        words = words[-MOST_OF_NAME:].partition("-")[2] or words[-MOST_OF_NAME:]
    schemas = f"{recordings}.mcp/{portable_name(words or 'server')}.yaml"
    return msgspec.structs.replace(server, schemas=schemas)


def tools_of_server(server: McpServer, served: Iterable[ServedTool]) -> dict[str, McpTool]:
    """Give the offered tools of a server by the names that models see."""
    know_secrets(server)
    return {tool.spec.name: tool for tool in _offered(server, served)}


def equal_names(server: McpServer, served: Iterable[ServedTool]) -> Iterator[tuple[str, str, str]]:
    """Give each name that two of a server's tools would share for models, and the two tools' own names."""
    first: dict[str, str] = {}
    for tool in _offered(server, served):
        other = first.setdefault(tool.spec.name, tool.served_name)
        # A model could not distinguish the two, and one of the tools would be lost.
        if other != tool.served_name:
            yield tool.spec.name, other, tool.served_name


def _offered(server: McpServer, served: Iterable[ServedTool]) -> Iterator[McpTool]:
    for each in served:
        if server.only and each.name not in server.only:
            continue
        # Providers of models take 64 characters for a tool's name.
        name = re.sub(r"[^A-Za-z0-9_-]", "_", server.prefix + each.name)[:64]
        # Arguments cannot be checked by a schema that is invalid itself.
        is_sound = next(iter(schema_problems(each.parameters)), None) is None
        spec = ToolSpec(
            name, each.description.strip(), each.parameters, checked=is_sound, taped=True, blocking=False
        )
        yield McpTool(spec, _of_no_trial, server=server, served_name=each.name)


def recorded_tools(server: McpServer) -> dict[str, McpTool]:
    """Give the tools of a planned trial's server, which are recorded by then."""
    return tools_of_server(server, SchemaSource(Path(server.folder)).tools_of(server))


def know_secrets(server: McpServer) -> None:
    """Register values whose names look secret; values of variables are registered when they are filled in."""
    KNOWN_SECRETS.know_environment(_as_written(server.env))
    KNOWN_SECRETS.know_headers(_as_written(server.headers))
    KNOWN_SECRETS.know_address(server.url)


def _as_written(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if "${" not in value}


def _of_no_trial(args: Mapping[str, Any]) -> Any:
    raise McpServerDown("a tool of an MCP server can be called only within a trial")


class ProcessServers:
    """All servers of a process: those that its trials share, and those of single trials."""

    def __init__(self) -> None:
        self._loop = LoopThread("agenteval-mcp")
        self._shared = ServerPool(self._loop, restarts=True)
        self._of_trials: set[ServerPool] = set()

    def of_trial(self, budget: Budget) -> TrialServers:
        own = ServerPool(self._loop)
        self._of_trials.add(own)
        return TrialServers(own, self._shared, budget, self._of_trials.discard)

    async def close(self) -> None:
        """End the servers that trials share, and those of trials that were cut off.

        No call may follow.
        """
        for servers in (self._shared, *self._of_trials):
            await asyncio.wrap_future(servers.close())
        self._loop.close()


class TrialServers:
    """The servers of one trial: its own, and those that it shares with all trials of the process."""

    def __init__(
        self, own: ServerPool, shared: ServerPool, budget: Budget, on_closed: Callable[[ServerPool], object]
    ) -> None:
        self._own, self._shared, self._budget, self._on_closed = own, shared, budget, on_closed

    def connect(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """Give the tools in a form whose calls reach their servers; a server starts at its first call."""
        connected = dict(tools)
        for name, tool in tools.items():
            if isinstance(tool, McpTool):
                connected[name] = replace(tool, function=partial(self._ask, tool))
        return connected

    async def _ask(self, tool: McpTool, args: Mapping[str, Any]) -> Any:
        servers = self._shared if tool.server.share == "session" else self._own
        # The trial is not charged for the start of a server.
        with self._budget.time.span("uncharged"):
            await asyncio.wrap_future(servers.start(tool.server))
        return await asyncio.wrap_future(servers.call(tool.server, tool.served_name, args))

    async def close(self) -> None:
        await asyncio.wrap_future(self._own.close())
        self._on_closed(self._own)

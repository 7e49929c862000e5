"""What servers offer, asked once and kept in a cassette: who replays starts no server to learn it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.cassettes.cassette import RecordMode
from pytest_agenteval.cassettes.interaction import Request, tool_answer, tool_request, tool_response
from pytest_agenteval.cassettes.library import Library
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.processes.files import locked, portable_name
from pytest_agenteval.records.plan import McpServer
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tools.mcp.answers import ServedTool, read_tool

MOST_OF_NAME = 80


class NotRecorded(Exception):
    """No cassette says what a server offers, and ``why`` it may not be started; ``mode`` records it."""

    def __init__(self, file: str, why: str, mode: RecordMode) -> None:
        super().__init__(file, why, mode)
        self.file, self.why, self.mode = file, why, mode


class SchemaSource(FrozenValue, frozen=True):
    """Where it is looked up what servers offer: in cassettes below a root; ``mode`` says who may be asked.

    ``started`` is when the run began, in seconds since 1970: workers tell by it each other's recordings from
    old ones.
    """

    root: Path
    mode: RecordMode = "none"
    started: float | None = None

    def tools_of(self, server: McpServer) -> tuple[ServedTool, ...]:
        """Give what a server offers; it is started and asked where that is not recorded and may be.

        Raises NotRecorded, and what keeps a server from answering.
        """
        request, tape = _request(server), self._tape(server)
        recorded = tape.find((request,))
        if recorded is None and tape.recording:
            path = tape.cassette.path
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not the cassette's own lock, which saving takes. Workers collect at once, and one asks.
            with locked(path.with_suffix(".server")):
                tape = self._tape(server)
                recorded = tape.find((request,)) or _ask(server, request, tape)
        if recorded is None:
            there = tape.cassette.path.exists()
            why = f"{self.mode}, and the file was there before" if self.mode != "none" else "replay"
            raise NotRecorded(tape.cassette.name, why, "new_episodes" if there else "once")
        return tuple(map(read_tool, tool_answer(recorded.response).result))

    def _tape(self, server: McpServer) -> Tape:
        return Library(self.root, started=self.started).open(Path(server.schemas), self.mode, "tool")


def _ask(server: McpServer, request: Request, tape: Tape) -> Any:
    from pytest_agenteval.tools.mcp.running_servers import list_tools

    tape.record(request, tool_response([_as_declared(tool) for tool in list_tools(server)]))
    tape.cassette.save()
    return tape.cassette.interactions[-1]  # redacted, as every replay will see it


def _request(server: McpServer) -> Request:
    """Write down which server is asked, in the words of the suite: no value of any variable is among them."""
    identity = {"command": list(server.command), "cwd": server.cwd, "url": server.url}
    return tool_request("tools/list", {name: value for name, value in identity.items() if value})


def _as_declared(tool: ServedTool) -> Mapping[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}


def schema_cassette(recordings: str, server: McpServer) -> str:
    """Give the path of the cassette that holds what a server offers, below a suite's recordings."""
    words = re.sub(r"[^A-Za-z0-9_.]+", "-", server.title).strip("-.")
    if len(words) > MOST_OF_NAME:  # what tells servers apart stands at the end
        words = words[-MOST_OF_NAME:].partition("-")[2] or words[-MOST_OF_NAME:]
    return f"{recordings}.mcp/{portable_name(words or 'server')}.yaml"

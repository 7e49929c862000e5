"""Tool calls on tape: tools that ask the outside world are played, from the trial's own cassette first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Interaction,
    Request,
    Response,
    tool_answer,
    tool_call,
    tool_request,
    tool_response,
)
from pytest_agenteval.cassettes.param_matchers import ParamMatchers
from pytest_agenteval.cassettes.request_identity import Address, CallMatcher, address_of
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.cassettes.tool_call_codec import as_tool_call, tool_call_matcher
from pytest_agenteval.errors import CassetteMiss
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.tools.tool import Tool, ToolResult, complaint

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.http import Scope

Shared: TypeAlias = Callable[[str], Tape | None]

OWN_CONNECTION = "with tool_of(…, taped=True), which records whole calls; then:  "
"""For a connection of a tool's own: it says nothing that could be recorded as a request."""


LET_IT_OUT = "let it out:  --agent-live, or live: true in suite.yaml (what the agent asks is then not taped)"


class ToolTape:
    """One trial's recorded tool calls; a tool that failed when recorded fails the same way when played.

    ``shared`` are asked after the trial's own tape: each gives, by the name of a tool, a tape of its calls,
    or None. Whichever tape it is, an equal call is looked for first, then one that the tool's ``matching``
    takes for the same, once defaults are filled in and values are of the types that the schema names.
    ``first_command`` records where nothing is recorded yet, ``retry_command`` what a recording lacks.
    """

    def __init__(
        self, own: Tape, *, shared: Sequence[Shared] = (), retry_command: str, first_command: str = ""
    ) -> None:
        self.own, self._shared = own, tuple(shared)
        self._retry_command, self._first_command = retry_command, first_command or retry_command
        self._opened: dict[str, tuple[Tape, ...]] = {}
        self._opening = threading.Lock()
        self._matchers: dict[str, tuple[Tool, CallMatcher]] = {}

    @property
    def live(self) -> bool:
        """Whether a call that was not played may be made."""
        return self.own.recording

    @property
    def hits(self) -> int:
        """How many calls were played; of a tool that uses HTTP, how many requests."""
        return self.own.hits + sum(tape.hits for tapes in self._opened.values() for tape in tapes)

    @property
    def misses(self) -> int:
        """How many calls or requests were neither played nor could be made."""
        return self.own.misses

    @property
    def recorded(self) -> int:
        """How many calls or requests were recorded."""
        return self.own.recorded

    def play(self, call: ToolCall, tool: Tool) -> ToolResult | None:
        """Give the recorded result, or None; a tool that uses HTTP is then called under ``http``."""
        ways, matcher = _ways(call, tool), self._matcher(tool)
        for tape in self._tapes(tool.spec.name):
            found = tape.find(ways, matcher)
            if found is not None:
                return _result(found, call, tool)
        if not tool.uses_http:
            self.own.missed()
        return None

    def record(self, call: ToolCall, tool: Tool, result: ToolResult) -> None:
        """Keep what a call of a tool without a wire really gave."""
        error = None if result.error is None else result.error.to_json()
        self.own.record(tool_request(tool.spec.name, call.args), tool_response(result.value, error=error))

    def record_response(self, call: ToolCall, tool: Tool, response: Response) -> None:
        """Keep what the provider really said to the request of a tool with a wire."""
        self.own.record(_ways(call, tool)[0], response)

    @contextmanager
    def http(self, tool: Tool) -> Iterator[Scope]:
        """Play, or send and record, each request that is made inside; what was refused is ``missed``."""
        from pytest_agenteval.cassettes.http import taped_http

        own, *others = self._tapes(tool.spec.name)
        with taped_http(own, tool.matching, shared=others) as scope:
            yield scope

    def miss(self, call: ToolCall, tool: Tool) -> CassetteMiss:
        """Make the error that names the nearest recorded call, and how to record this one."""
        name, matcher = tool.spec.name, self._matcher(tool)
        held = [request for tape in self._tapes(name) for request in tape.cassette.requests]
        asked = self.own.cassette.redactor.request(_ways(call, tool)[0])
        recorded = [as_tool_call(request, name, matcher) for request in held]
        return self.own.miss(as_tool_call(asked, name, matcher), self._retry_command, recorded)

    def http_miss(self, request: Request) -> CassetteMiss:
        """Make the error for a request that was refused under ``http``."""
        way = OWN_CONNECTION if request.method == "CONNECT" else ""
        return self.own.miss(request, way + self._retry_command)

    @property
    def of_agent(self) -> tuple[Tape, ...]:
        """The tapes of what an agent asks by itself: the trial's own, then shared ones that are no tool's."""
        return self._tapes("")

    def agents_miss(self, request: Request) -> CassetteMiss:
        """Make the error for a request that an agent made by itself, and that was refused."""
        connected = request.method == "CONNECT"  # nothing that could be recorded
        command = self._retry_command if len(self.own.cassette) else self._first_command
        return self.own.miss(request, "" if connected else command, other_way=LET_IT_OUT)

    def _tapes(self, name: str) -> tuple[Tape, ...]:
        with self._opening:
            if name not in self._opened:
                found = (opened(name) for opened in self._shared)
                self._opened[name] = tuple(tape for tape in found if tape is not None)
            return (self.own, *self._opened[name])

    def _matcher(self, tool: Tool) -> CallMatcher:
        held = self._matchers.get(tool.spec.name)
        if held is None or held[0] is not tool:
            held = self._matchers[tool.spec.name] = (tool, _matcher_of(tool))
        return held[1]


def can_replay(tools: Iterable[Tool], *, agents: bool = False) -> Callable[[Request], bool]:
    """Give the question whether any of these tools can still ask a recorded request.

    Its arguments have to be valid by today's schema. A tool that uses HTTP by itself may ask anything, and so
    may ``agents`` that do.
    """
    known = {tool.spec.name: (tool, _matcher_of(tool)) for tool in tools}
    free = agents or any(tool.uses_http for tool, _ in known.values())
    last_at: dict[Address, tuple[Tool, CallMatcher]] = {}

    def can(request: Request) -> bool:
        if request.uri.startswith(CHAT):
            return True
        if request.uri.startswith(TOOL):
            name, args = tool_call(request)
            return name in known and _valid(known[name][0], args)
        return free or _can_be_asked(request, list(known.values()), last_at)

    return can


def _can_be_asked(
    request: Request,
    known: Sequence[tuple[Tool, CallMatcher]],
    last_at: dict[Address, tuple[Tool, CallMatcher]],
) -> bool:
    """Look for a tool that can make the request, first of all the one that could at this address last."""
    address = address_of(request)
    likely = [last_at[address]] if address in last_at else []
    for tool, matcher in (*likely, *known):
        args = matcher.read_recorded(request)
        if args is not None and _valid(tool, args):
            last_at[address] = tool, matcher
            return True
    return False


def _valid(tool: Tool, args: Mapping[str, object]) -> bool:
    return not tool.spec.checked or not complaint(tool.spec, args)


def _matcher_of(tool: Tool) -> CallMatcher:
    matchers = ParamMatchers(tool.matching, where=f"{tool.spec.name}: matching")
    return tool_call_matcher(tool.spec.name, tool.spec.parameters, matchers, tool.wire)


def _ways(call: ToolCall, tool: Tool) -> tuple[Request, ...]:
    """Write a call in every way in which it may stand in a cassette; it is recorded in the first."""
    by_name = tool_request(call.tool, call.args)
    return (tool.wire.request(call.args), by_name) if tool.wire is not None else (by_name,)


def _result(found: Interaction, call: ToolCall, tool: Tool) -> ToolResult:
    if tool.wire is not None and not found.request.uri.startswith(TOOL):
        return tool.wire.result(found.response, call.args)
    answer = tool_answer(found.response)
    if answer.error is None:
        return ToolResult(answer.result)
    return ToolResult(error=_error(answer.error.get("type"), answer.error.get("message")))


def _error(type: object, message: object) -> ToolError:
    return ToolError(str(type or "tool_error"), str(message or ""))

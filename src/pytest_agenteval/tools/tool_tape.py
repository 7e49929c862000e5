"""Recorded calls of tools: each call is replayed, made and recorded, or refused as a miss."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.http.patches import taped_http
from pytest_agenteval.cassettes.http.scope import let_out, untaped
from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Request,
    is_http_exchange,
    tool_answer,
    tool_call,
    tool_request,
    tool_response,
    with_http_request,
)
from pytest_agenteval.cassettes.request_matching import CallMatcher, ParamMatchers
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import TapeStatus, ToolCall
from pytest_agenteval.text.errors import CassetteMiss, NoKey, UsageMistake
from pytest_agenteval.text.json_values import canonical_json
from pytest_agenteval.tools.tool import (
    Tool,
    ToolFailed,
    ToolResult,
    Wire,
    failed_result,
    invalid_arguments,
    normalize_arguments,
    not_recorded,
)


def _matcher_of(tool: Tool) -> CallMatcher:
    """Make the matcher of a tool's calls, which reads them with the defaults and types of its schema."""
    spec, wire = tool.spec, tool.wire

    def read(request: Request) -> Mapping[str, Any] | None:
        if request.uri.startswith(TOOL):
            name, args = tool_call(request)
            return _normalized(args, tool) if name == spec.name else None
        if wire is None or request.uri.startswith(CHAT):
            return None
        from pytest_agenteval.tools.http_recordings import arguments_in

        recorded = arguments_in(wire, request)
        return None if recorded is None else _normalized(recorded, tool)

    matchers = ParamMatchers(tool.matching, where=f"{spec.name}: matching")
    return CallMatcher((spec.name, matchers.ident, canonical_json(spec.parameters), id(wire)), read, matchers)


def _as_call(request: Request, tool: str, matcher: CallMatcher) -> Request:
    """Give a request as a ``tool://`` call if it is one of the tool's; others stay as they are."""
    args = matcher.read(request)
    if args is None:
        return request
    # Parameters that ``matching`` ignores must not appear as a difference in a message.
    return tool_request(tool, {name: it for name, it in args.items() if not matcher.matchers.ignores(name)})


def _normalized(args: Mapping[str, Any], tool: Tool) -> Mapping[str, Any]:
    if tool.wire is not None:  # nothing is sent for null: it is an absent argument
        args = {name: value for name, value in args.items() if value is not None}
    return normalize_arguments(args, tool.spec.parameters)


Shared: TypeAlias = Callable[[str], Tape | None]
MakeCall: TypeAlias = Callable[[], Awaitable[ToolResult]]


class TapedAnswer(FrozenValue, frozen=True):
    """The result of a call, how the tape took part, and the requests that were not recorded."""

    tape: TapeStatus
    result: ToolResult
    misses: tuple[CassetteMiss, ...] = ()


class ToolTape:
    """One trial's recorded tool calls; a tool that failed in the recording fails the same way in a replay.

    ``shared`` are used after the trial's own tape: each gives, by the name of a tool, a tape of its calls, or
    None. In each tape an equal call is searched first, then one that the tool's ``matching`` accepts as the
    same, with defaults filled in and values of the schema's types. ``first_command`` records if nothing is
    recorded yet, ``retry_command`` records what a recording lacks. ``other_way`` is what else can be done
    about a request of the agent.
    """

    def __init__(
        self,
        own: Tape,
        *,
        shared: Sequence[Shared] = (),
        retry_command: str,
        first_command: str = "",
        other_way: str = "",
    ) -> None:
        self.own, self._shared = own, tuple(shared)
        self._retry_command, self._first_command = retry_command, first_command or retry_command
        self._other_way = other_way
        self._opened: dict[str, tuple[Tape, ...]] = {}
        self._opening = threading.Lock()
        self._matchers: dict[str, tuple[Tool, CallMatcher]] = {}

    @property
    def live(self) -> bool:
        """Whether a call that was not replayed may be made."""
        return self.own.recording

    @property
    def hits(self) -> int:
        """How many calls were replayed; of a tool that uses HTTP, how many requests."""
        return self.own.hits + sum(tape.hits for tapes in self._opened.values() for tape in tapes)

    @property
    def misses(self) -> int:
        """How many calls or requests were neither replayed nor could be made."""
        return self.own.misses

    @property
    def recorded(self) -> int:
        """How many calls or requests were recorded."""
        return self.own.recorded

    def play(self, call: ToolCall, tool: Tool) -> ToolResult | None:
        """Give the recorded result, or None; raises ToolFailed if the arguments make no request."""
        tapes = [tape for tape in self._tapes(tool.spec.name) if len(tape.cassette)]
        # Of a tool that is a request, the request is made in any case: its arguments may not allow one.
        ways = _request_forms(call, tool) if tapes or tool.wire is not None else ()
        for tape in tapes:
            matcher = self._matcher(tool)
            interaction = tape.find(ways, matcher)
            if interaction is not None:
                # Imported calls, and failures without a response, hold the tool's own answer.
                if tool.wire is not None and is_http_exchange(interaction):
                    return tool.wire.result(interaction.response, call.args)
                answer = tool_answer(interaction.response)
                if answer.error is None:
                    return ToolResult(answer.result)
                return failed_result(
                    str(answer.error.get("type") or "tool_error"), str(answer.error.get("message") or "")
                )
        if not tool.uses_http:
            self.own.missed()
        return None

    async def answer(self, call: ToolCall, tool: Tool, make: MakeCall) -> TapedAnswer:
        """Replay the call; without a recording, make and record it, or give what is missing.

        ``make`` really calls the tool; it is not called if the result was recorded or nothing may be sent. A
        tool that ``uses_http`` is always called: its requests are replayed, recorded or refused.
        """
        try:
            recorded = self.play(call, tool)
        except ToolFailed as failed:  # no request can be made of these arguments
            return TapedAnswer("none", failed_result(failed.type, str(failed)))
        if recorded is not None:
            return TapedAnswer("hit", recorded)
        if tool.uses_http:
            own, *others = self._tapes(tool.spec.name)
            with taped_http(own, tool.matching, shared=others) as scope:
                result = await make()
            if scope.missed:  # whatever the tool made of the refusal: the agent must not see it
                # A connection that the tool opens itself carries nothing that could be recorded as a request.
                way = "with tool_of(…, taped=True), which records whole calls; then:  "
                misses = tuple(
                    self.own.miss(request, (way if request.method == "CONNECT" else "") + self._retry_command)
                    for request in scope.missed
                )
                return TapedAnswer("miss", not_recorded(tool.spec.name), misses)
            return TapedAnswer(scope.tape_status, result)
        if not self.live:
            return TapedAnswer("miss", not_recorded(tool.spec.name), (self.miss(call, tool),))
        if tool.wire is not None:
            return TapedAnswer("live", await self._record_exchange(call, tool, tool.wire))
        # The call is recorded as a whole, so its own requests are sent and not recorded.
        with let_out():
            result = await make()
        error = None if result.error is None else result.error.to_json()
        self.own.record(tool_request(tool.spec.name, call.args), tool_response(result.value, error=error))
        return TapedAnswer("live", result)

    def miss(self, call: ToolCall, tool: Tool) -> CassetteMiss:
        """Make the error that names the nearest recorded call, and how to record this one."""
        name, matcher = tool.spec.name, self._matcher(tool)
        held = [request for tape in self._tapes(name) for request in tape.cassette.requests]
        redacted = self.own.cassette.redactor.request(_request_forms(call, tool)[0])
        recorded = [_as_call(request, name, matcher) for request in held]
        return self.own.miss(_as_call(redacted, name, matcher), self._retry_command, recorded)

    @property
    def of_agent(self) -> tuple[Tape, ...]:
        """The tapes of the agent's own requests: the trial's, then shared ones that belong to no tool."""
        return self._tapes("")

    def agents_miss(self, request: Request) -> CassetteMiss:
        """Make the error for a request that an agent made by itself and that was refused."""
        connected = request.method == "CONNECT"  # nothing that could be recorded
        command = self._retry_command if len(self.own.cassette) else self._first_command
        return self.own.miss(request, "" if connected else command, other_way=self._other_way)

    async def _record_exchange(self, call: ToolCall, tool: Tool, wire: Wire) -> ToolResult:
        recorded_call, sent = _request_forms(call, tool)
        try:
            with untaped():
                response = await wire.send(call.args)
        except ToolFailed as failed:
            error = {"type": failed.type, "message": str(failed)}
            self.own.record(recorded_call, tool_response(error=error))
            return failed_result(failed.type, str(failed))
        except UsageMistake as mistake:
            raise NoKey(str(mistake)) from None
        self.own.record(recorded_call, with_http_request(response, sent))
        # Redacted as in the recording, so that the agent sees the same live as in a replay.
        return wire.result(self.own.cassette.redactor.response(response), call.args)

    def _tapes(self, name: str) -> tuple[Tape, ...]:
        with self._opening:
            if name not in self._opened:
                tapes = (opened(name) for opened in self._shared)
                self._opened[name] = tuple(tape for tape in tapes if tape is not None)
            return (self.own, *self._opened[name])

    def _matcher(self, tool: Tool) -> CallMatcher:
        held = self._matchers.get(tool.spec.name)
        if held is None or held[0] is not tool:
            held = self._matchers[tool.spec.name] = (tool, _matcher_of(tool))
        return held[1]


def can_replay(tools: Iterable[Tool], *, agents: bool = False) -> Callable[[Request], bool]:
    """Make the function that tells whether any of these tools can still make a recorded call.

    Its arguments have to be valid by today's schema. A tool that uses HTTP by itself may send any request,
    and so may ``agents`` that do.
    """
    by_name = {tool.spec.name: tool for tool in tools}
    free = agents or any(tool.uses_http for tool in by_name.values())
    readers = [_matcher_of(tool).read for tool in by_name.values() if tool.wire is not None]

    def can(request: Request) -> bool:
        if not request.uri.startswith(TOOL):
            return free or request.uri.startswith(CHAT) or any(read(request) is not None for read in readers)
        name, args = tool_call(request)
        spec = by_name[name].spec if name in by_name else None
        return spec is not None and not (spec.checked and invalid_arguments(spec, args))

    return can


def _request_forms(call: ToolCall, tool: Tool) -> tuple[Request, ...]:
    """Give a call as it is recorded, then the HTTP request that it makes, if it is one."""
    if tool.wire is None:
        return (tool_request(call.tool, call.args),)
    return tool_request(call.tool, _normalized(call.args, tool)), tool.wire.request(call.args)

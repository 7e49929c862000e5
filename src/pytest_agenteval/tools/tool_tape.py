"""Recorded calls of tools: each call is replayed, made and recorded, or refused as a miss."""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.http.patches import taped_http
from pytest_agenteval.cassettes.http.scope import let_out, untaped
from pytest_agenteval.cassettes.interaction import (
    CHAT,
    TOOL,
    Request,
    tool_answer,
    tool_call,
    tool_request,
    tool_response,
)
from pytest_agenteval.cassettes.request_matching import (
    CallMatcher,
    EndpointKey,
    ParamMatchers,
    address_of,
    request_parameters,
)
from pytest_agenteval.cassettes.tape import Tape
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import TapeStatus, ToolCall
from pytest_agenteval.text.errors import CassetteMiss, NoKey, UsageMistake
from pytest_agenteval.text.json_values import canonical_json, json_equal
from pytest_agenteval.tools.tool import (
    Tool,
    ToolFailed,
    ToolResult,
    Wire,
    failed_result,
    invalid_arguments,
    not_recorded,
)


def tool_call_matcher(
    tool: str, schema: Mapping[str, Any], matchers: ParamMatchers, wire: Wire | None = None
) -> CallMatcher:
    """Make the matcher of a tool's calls, which reads them with the defaults and types of its schema."""

    def read_recorded(request: Request) -> Mapping[str, Any] | None:
        args = _args_of_tool(request, tool, wire)
        return None if args is None else normalize_arguments(args, schema)

    def read_request(request: Request) -> Mapping[str, Any] | None:
        if wire is None or request.uri.startswith(TOOL):
            return read_recorded(request)
        return normalize_arguments(wire.args(request), schema)

    return CallMatcher(
        (tool, matchers.ident, canonical_json(schema), id(wire)), read_recorded, read_request, matchers
    )


def as_tool_call(request: Request, tool: str, matcher: CallMatcher) -> Request:
    """Give a request as a ``tool://`` call if it is one of the tool's; others stay as they are."""
    args = matcher.read_recorded(request)
    if args is None:
        return request
    # Parameters that ``matching`` ignores must not appear as a difference in a message.
    compared = {name: value for name, value in args.items() if not matcher.matchers.ignores(name)}
    return tool_request(tool, compared)


def _args_of_tool(request: Request, tool: str, wire: Wire | None) -> Mapping[str, Any] | None:
    if request.uri.startswith(TOOL):
        name, args = tool_call(request)
        if name == tool and wire is not None:  # only what reaches the provider is compared
            with suppress(Exception):  # arguments that the tool would refuse today
                return wire.args(wire.request(args))
        return args if name == tool else None
    if wire is None or request.uri.startswith(CHAT):
        return None
    try:
        read = wire.args(request)
        again = wire.request(read)
    except Exception:  # of another tool's request, a wire need not make sense
        return None
    # Tools may share an address: it is this one's if the arguments make the same request again.
    if address_of(again) != address_of(request):
        return None
    would = request_parameters(again)
    for name, value in request_parameters(request).items():
        if name not in would or not (json_equal(would[name], value) or str(would[name]) == str(value)):
            return None
    return read


_SCALARS = frozenset({str, int, bool, float})
_YES, _NO = ("true", "1", "yes"), ("false", "0", "no")


def normalize_arguments(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give the arguments in one form, however the call was written.

    Defaults are filled in. A value that cannot be converted to its type stays as it is, and arguments that
    the schema lacks are left out. A schema without properties changes nothing.
    """
    properties = schema.get("properties")
    if not properties:
        return dict(args)
    shapes = {name: shape for name, shape in properties.items() if isinstance(shape, dict | Mapping)}
    whole = {name: shape["default"] for name, shape in shapes.items() if "default" in shape}
    whole.update({name: value for name, value in args.items() if name in properties})
    return {name: _normal_form(value, properties[name]) for name, value in whole.items()}


def _normal_form(value: Any, shape: Any) -> Any:
    """Give a text or number in the form of its declared type: models write 5 as ``"5"`` or as 5.0."""
    if type(value) not in _SCALARS:
        return value
    kind = shape.get("type") if isinstance(shape, dict | Mapping) else None
    if isinstance(kind, list | tuple):
        kind = next((word for word in kind if word != "null"), None)
    with suppress(ValueError, OverflowError):
        if kind == "string":
            return str(value)
        if kind == "boolean":
            word = str(value).casefold()
            return word in _YES if word in (*_YES, *_NO) else value
        if kind == "integer":
            # To Python True is an int, but to JSON it is no number.
            is_other = isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())
            return value if is_other else int(value)
        if kind == "number":
            number = value if isinstance(value, bool | int) else float(value)
            return number if math.isfinite(number) else value
    return value


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
    recorded yet, ``retry_command`` records what a recording lacks.
    """

    def __init__(
        self,
        own: Tape,
        *,
        shared: Sequence[Shared] = (),
        retry_command: str,
        first_command: str = "",
        let_out: str = "",
    ) -> None:
        self.own, self._shared = own, tuple(shared)
        self._retry_command, self._first_command = retry_command, first_command or retry_command
        live = (
            "let it out:  --agent-live, or live: true in suite.yaml (what the agent asks is then not taped)"
        )
        self._let_out = let_out or live
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
        ways, matcher = _possible_requests(call, tool), self._matcher(tool)
        for tape in self._tapes(tool.spec.name):
            interaction = tape.find(ways, matcher)
            if interaction is not None:
                # Imported calls and failures without a response are tool:// recordings, with a wire, too.
                if tool.wire is not None and not interaction.request.uri.startswith(TOOL):
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
            return TapedAnswer("live", await self._record_exchange(call, tool.wire))
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
        redacted = self.own.cassette.redactor.request(_possible_requests(call, tool)[0])
        recorded = [as_tool_call(request, name, matcher) for request in held]
        return self.own.miss(as_tool_call(redacted, name, matcher), self._retry_command, recorded)

    @property
    def of_agent(self) -> tuple[Tape, ...]:
        """The tapes of the agent's own requests: the trial's, then shared ones that belong to no tool."""
        return self._tapes("")

    def agents_miss(self, request: Request) -> CassetteMiss:
        """Make the error for a request that an agent made by itself and that was refused."""
        connected = request.method == "CONNECT"  # nothing that could be recorded
        command = self._retry_command if len(self.own.cassette) else self._first_command
        return self.own.miss(request, "" if connected else command, other_way=self._let_out)

    async def _record_exchange(self, call: ToolCall, wire: Wire) -> ToolResult:
        try:
            with untaped():
                response = await wire.send(call.args)
        except ToolFailed as failed:
            error = {"type": failed.type, "message": str(failed)}
            self.own.record(tool_request(call.tool, call.args), tool_response(error=error))
            return failed_result(failed.type, str(failed))
        except UsageMistake as mistake:
            raise NoKey(str(mistake)) from None
        self.own.record(wire.request(call.args), response)
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
    """Make the function that tells whether any of these tools can still make a recorded request.

    Its arguments have to be valid by today's schema. A tool that uses HTTP by itself may send any request,
    and so may ``agents`` that do.
    """
    by_name = {tool.spec.name: (tool, _matcher_of(tool)) for tool in tools}
    free = agents or any(tool.uses_http for tool, _ in by_name.values())
    last_at: dict[EndpointKey, tuple[Tool, CallMatcher]] = {}

    def can(request: Request) -> bool:
        if request.uri.startswith(CHAT):
            return True
        if request.uri.startswith(TOOL):
            name, args = tool_call(request)
            return name in by_name and _valid(by_name[name][0], args)
        if free:
            return True
        address = address_of(request)
        # The tool that could make the last request at this address is likely to make this one too.
        likely = [last_at[address]] if address in last_at else []
        for tool, matcher in (*likely, *by_name.values()):
            read = matcher.read_recorded(request)
            if read is not None and _valid(tool, read):
                last_at[address] = tool, matcher
                return True
        return False

    return can


def _valid(tool: Tool, args: Mapping[str, object]) -> bool:
    return not tool.spec.checked or not invalid_arguments(tool.spec, args)


def _matcher_of(tool: Tool) -> CallMatcher:
    matchers = ParamMatchers(tool.matching, where=f"{tool.spec.name}: matching")
    return tool_call_matcher(tool.spec.name, tool.spec.parameters, matchers, tool.wire)


def _possible_requests(call: ToolCall, tool: Tool) -> tuple[Request, ...]:
    """Give every form in which a cassette may hold a call; it is recorded in the first."""
    by_name = tool_request(call.tool, call.args)
    return (tool.wire.request(call.args), by_name) if tool.wire is not None else (by_name,)

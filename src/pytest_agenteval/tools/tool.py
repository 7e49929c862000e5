"""What a tool is: its declaration, function and schema, and faults that make it fail on purpose."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_agenteval.records.record import NOTHING, Record
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, ToolError
from pytest_agenteval.text.json_values import compact_json

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from pytest_agenteval.cassettes.interaction import Request, Response


ToolFunction: TypeAlias = Callable[[Mapping[str, Any]], Any | Awaitable[Any]]
"""A tool's function: it takes one map of arguments and returns a JSON value, or an awaitable."""


class ToolFailed(Exception):
    """Raised by a tool; the agent receives its text as the call's error."""

    def __init__(self, message: str, type: str = "tool_error") -> None:
        super().__init__(message)
        self.type = type


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that an agent can call.

    ``function`` takes the arguments as one map and returns a JSON value, or an awaitable of one; it raises
    ToolFailed to report an error to the agent. A tool with a ``wire`` is one HTTP request, recorded below
    the call.
    Of a tool that ``uses_http`` each request that its function makes, through whichever library, is recorded
    by itself. ``matching`` maps parameters to the differences from a recorded call that do not count:
    ``exact`` (the default), ``folded``, ``ignore``, ``contains`` or ``{"number": TOLERANCE}``.
    """

    spec: ToolSpec
    function: ToolFunction
    wire: Wire | None = None
    uses_http: bool = False
    matching: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


class Wire(Protocol):
    """How an HTTP tool's calls look in cassettes."""

    def request(self, args: Mapping[str, Any]) -> Request:
        """Give the request of a call to the provider, with defaults filled in and without secrets."""

    def result(self, response: Response, args: Mapping[str, Any]) -> ToolResult:
        """Give what the agent is shown of the response to a call; a reported failure is an error."""

    async def send(self, args: Mapping[str, Any]) -> Response:
        """Send the call; raises ToolFailed if the provider cannot be reached, UsageMistake without a key."""


class ToolResult(Record, frozen=True):
    """The result of a call: a JSON value, or an error."""

    value: Any = None
    error: ToolError | None = None

    @property
    def content(self) -> str:
        """The text that the model is shown."""
        if self.error is not None:
            return compact_json({"error": self.error.message, "error_type": self.error.type})
        return self.value if isinstance(self.value, str) else compact_json(self.value)

    def message(self, call: ToolCall) -> dict[str, Any]:
        """Give the result as the message that answers a call."""
        return {"role": "tool", "tool_call_id": call.id, "content": self.content}


def failed_result(type: str, message: str) -> ToolResult:
    """Give the result of a call that failed; the message goes to the agent."""
    return ToolResult(error=ToolError(type, message))


def not_recorded(tool: str) -> ToolResult:
    """Give what the agent is shown for a call that was neither recorded nor made."""
    return failed_result("not_recorded", f"no answer to this call of {tool} is available")


class Fault(Protocol):
    """Makes a tool fail on purpose."""

    def serializes(self, call: ToolCall) -> bool:
        """Whether the tool's calls run one after the other, since later results depend on earlier ones."""

    def short_circuit(self, call: ToolCall, nth: int) -> ToolResult | None:
        """Give the result to show in place of the real one; None lets the nth call of the tool through."""

    def delay(self, call: ToolCall, nth: int) -> float:
        """Give the seconds that the call takes longer."""

    def alter_result(self, call: ToolCall, nth: int, result: ToolResult) -> ToolResult:
        """Give the result to show in place of the tool's own."""


MOST_VALIDATORS = 512

# Compiling a schema costs a hundred times more than checking against it.
_validators: dict[int, tuple[Mapping[str, Any], Validator]] = {}


def compile_schemas(specs: Iterable[ToolSpec]) -> None:
    """Prepare the checks of these tools' calls, so that no trial is charged for that time."""
    for spec in specs:
        if spec.checked and spec.parameters:
            _validator(spec.parameters)


def invalid_arguments(spec: ToolSpec, args: Mapping[str, Any]) -> str:
    """Give what is wrong with the arguments, in the schema's words; empty if nothing is."""
    if not spec.parameters:
        return ""
    errors = sorted(_validator(spec.parameters).iter_errors(dict(args)), key=lambda error: list(error.path))
    lines = []
    for error in errors[:5]:
        place = ".".join(str(step) for step in error.path)
        lines.append(f"{place}: {error.message}" if place else error.message)
    return "; ".join(lines)


def _validator(schema: Mapping[str, Any]) -> Validator:
    cached = _validators.get(id(schema))
    # An id is used again once its object is gone, so the schema itself is compared, too.
    if cached is not None and cached[0] is schema:
        return cached[1]
    from jsonschema import Draft202012Validator

    from pytest_agenteval.text.patterns import with_bounded_patterns

    if len(_validators) > MOST_VALIDATORS:  # tools of trials long gone
        _validators.clear()
    made = with_bounded_patterns(Draft202012Validator)(schema)
    _validators[id(schema)] = (schema, made)
    return made


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
    return {name: in_declared_type(value, properties[name]) for name, value in whole.items()}


def in_declared_type(value: Any, shape: Any) -> Any:
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


# Faults that answer in place of the tool, in the words that APIs commonly use.
FAULT_MESSAGES: Mapping[str, str] = {
    "timeout": "Request timeout",
    "complete_unavailable": "Service completely unavailable",
    "data_not_available": "No data available",
    "rate_limited": "Too many requests (429): try again later",
}


@dataclass(slots=True)
class ToolFault:
    """One fault of one trial's tool.

    The first ``after`` calls are let through, then ``times`` calls are affected (None: all). ``malformed``
    cuts the result's JSON off in the middle, ``partial`` leaves the first half of every list (of a text, the
    first half), ``slow`` takes ``seconds`` longer, ``stale`` gives the tool's first result whatever the
    arguments are.
    """

    tool: str
    type: str
    times: int | None = None
    after: int = 0
    seconds: float = 5.0
    _first: ToolResult | None = field(default=None, init=False)

    def applies(self, call: ToolCall, nth: int) -> bool:
        """Whether the nth call of its tool, counted from 1, is affected."""
        is_in_range = nth > self.after and (self.times is None or nth <= self.after + self.times)
        return call.tool == self.tool and is_in_range

    def serializes(self, call: ToolCall) -> bool:
        # Among calls that overlap, chance would decide which result is the first.
        return self.type == "stale" and call.tool == self.tool

    def short_circuit(self, call: ToolCall, nth: int) -> ToolResult | None:
        if self.type not in FAULT_MESSAGES or not self.applies(call, nth):
            return None
        return ToolResult(error=ToolError(self.type, FAULT_MESSAGES[self.type]))

    def delay(self, call: ToolCall, nth: int) -> float:
        return self.seconds if self.type == "slow" and self.applies(call, nth) else 0.0

    def alter_result(self, call: ToolCall, nth: int, result: ToolResult) -> ToolResult:
        if call.tool != self.tool or result.error is not None:
            return result
        if self._first is None:
            self._first = result
        if not self.applies(call, nth):
            return result
        if self.type == "stale":
            return self._first
        if self.type == "malformed":
            return ToolResult(_first_half(result.content))
        return ToolResult(_partial(result.value)) if self.type == "partial" else result


def planned_faults(planned: Sequence[Mapping[str, Any]]) -> tuple[ToolFault, ...]:
    """Make a trial's own faults from its plan, since each trial counts its calls for itself."""
    return tuple(ToolFault(**settings) for settings in planned)


def _partial(value: Any) -> Any:
    if isinstance(value, str):
        return _first_half(value)
    if isinstance(value, list):
        return [_within(item) for item in value[: len(value) // 2]]
    return _within(value)


def _within(value: Any) -> Any:
    """Halve the lists inside a value; its single texts and numbers stay as they are."""
    if isinstance(value, dict):
        return {key: _within(item) for key, item in value.items()}
    return _partial(value) if isinstance(value, list) else value


def _first_half(text: str) -> str:
    return text[: len(text) // 2]

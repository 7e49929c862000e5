"""What a tool is: a declaration and something to call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pytest_agenteval.canonical import compact
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.records.transcript import NOTHING, ToolCall, ToolError

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.interaction import Request, Response

ToolFunction: TypeAlias = Callable[[Mapping[str, Any]], Any | Awaitable[Any]]


class ToolFailed(Exception):
    """A tool's way to say no: its text goes to the agent as the call's error."""

    def __init__(self, message: str, type: str = "tool_error") -> None:
        super().__init__(message)
        self.type = type


@dataclass(frozen=True, slots=True)
class Tool:
    """Something an agent can call.

    ``function`` takes the arguments as one map and returns a JSON value, or an awaitable of one; it raises
    ToolFailed to tell the agent what is wrong. A tool with a ``wire`` is one HTTP request, taped as such. Of
    a tool that ``uses_http`` each request that its function makes, by whichever library, is taped by itself.
    ``matching`` says by parameter which difference from a recorded call is none: ``exact`` (the default),
    ``folded``, ``ignore``, ``contains`` or ``{"number": TOLERANCE}``.
    """

    spec: ToolSpec
    function: ToolFunction
    wire: Wire | None = None
    uses_http: bool = False
    matching: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


class Wire(Protocol):
    """What the calls of an HTTP tool look like on the wire: its cassettes hold what the provider said."""

    def request(self, args: Mapping[str, Any]) -> Request:
        """Write a call as the request that asks the provider, with defaults filled in and no secret."""
        ...

    def args(self, request: Request) -> Mapping[str, Any]:
        """Read the arguments back out of a request of this tool."""
        ...

    def result(self, response: Response, args: Mapping[str, Any]) -> ToolResult:
        """Make of the response to a call what the agent is shown; what says that it failed is an error."""
        ...

    async def send(self, args: Mapping[str, Any]) -> Response:
        """Really ask; raises ToolFailed where the provider is out of reach, UsageMistake without a key."""
        ...


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of a call: a JSON value, or an error."""

    value: Any = None
    error: ToolError | None = None

    @property
    def content(self) -> str:
        """The text that the model is shown."""
        if self.error is not None:
            return compact({"error": self.error.message, "error_type": self.error.type})
        return self.value if isinstance(self.value, str) else compact(self.value)

    def message(self, call: ToolCall) -> dict[str, Any]:
        """Give the result as the message that answers a call."""
        return {"role": "tool", "tool_call_id": call.id, "content": self.content}


class Fault(Protocol):
    """Something that makes a tool fail on purpose."""

    def in_turn(self, call: ToolCall) -> bool:
        """Whether the tool's calls go one after the other: what one of them gave, a later one shows."""
        ...

    def strike(self, call: ToolCall, nth: int) -> ToolResult | None:
        """Give the result to show in place of the real one; None lets the nth call of the tool through."""
        ...

    def delay(self, call: ToolCall, nth: int) -> float:
        """Give the seconds that the call takes longer."""
        ...

    def bend(self, call: ToolCall, nth: int, result: ToolResult) -> ToolResult:
        """Give what becomes of the tool's answer."""
        ...

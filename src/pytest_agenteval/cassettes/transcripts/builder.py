"""A transcript put together message by message, as somebody else tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.replies import split_thoughts
from pytest_agenteval.records.tool_spec import ToolSpec, shown_value
from pytest_agenteval.records.transcript import (
    NO_USAGE,
    NOT_FINISHED,
    Ask,
    Message,
    Role,
    ToolCall,
    ToolError,
    Transcript,
    Usage,
)
from pytest_agenteval.text.canonical import compact
from pytest_agenteval.text.json_form import jsonable

UNKNOWN_USAGE = Usage(None, None, None, None, None, asks=1, attempts=None)
"""Of a reply of which nobody says what it took."""

UNFINISHED = ToolError(NOT_FINISHED, "the call did not end")


class CallRequest(FrozenValue, frozen=True):
    """A call as a reply asks for it; ``raw_args`` is what stands there where that is no JSON object."""

    id: str
    tool: str
    args: Mapping[str, Any] = NOTHING
    raw_args: str | None = None
    by: Literal["agent", "provider"] = "agent"


class CallOutcome(FrozenValue, frozen=True):
    """What came of a call: the ``content`` that the model was shown, and what else is known of it.

    ``value`` is the result where it is another than the content; times are seconds since the trial began.
    """

    content: str
    value: Any = None
    error: ToolError | None = None
    started: float = 0.0
    ended: float = 0.0


class TranscriptBuilder:
    """Puts a transcript together; a call is answered by the first result with its id that comes after it."""

    def __init__(self) -> None:
        self.replies = 0
        self._messages: list[Message] = []
        self._calls: list[ToolCall] = []
        self._asks: list[Ask] = []
        self._tools: tuple[ToolSpec, ...] = ()

    def say(self, role: Role, content: str, call_id: str = "") -> None:
        """Add a message that is no reply."""
        self._messages.append(Message(role, content, turn=self.replies + 1, call_id=call_id))

    def reply(self, content: str, requests: Sequence[CallRequest] = (), **ask: Any) -> None:
        """Add a model's reply with the calls that it asks for; ``ask`` are fields of its ``Ask``.

        Thoughts that a server left in the text are split off, as of replies that were seen.
        """
        content, thought = split_thoughts(content)
        ask["reasoning"] = "\n\n".join(filter(None, (ask.get("reasoning", ""), thought)))
        self.replies += 1
        turn = self.replies
        calls = tuple(
            ToolCall(request.id, turn, index, request.tool, request.args, request.raw_args, by=request.by)
            for index, request in enumerate(requests)
        )
        self._messages.append(Message("assistant", content, calls, turn))
        self._calls += [replace(call, error=UNFINISHED) for call in calls]
        fields = {"started": 0.0, "ended": 0.0, "usage": UNKNOWN_USAGE, "finish": _finish(calls), **ask}
        self._asks.append(Ask(turn, **fields))

    def result(self, call_id: str, outcome: CallOutcome, *, is_shown: bool = True) -> None:
        """Add what came of a call; the model was shown it, unless it is said otherwise."""
        if is_shown:
            self.say("tool", outcome.content, call_id)
        for place, call in enumerate(self._calls):
            if call.id == call_id and call.error is UNFINISHED:
                self._calls[place] = _ended(call, outcome)
                return

    def own_call(self, request: CallRequest, outcome: CallOutcome | None) -> None:
        """Add a call that no reply asks for."""
        call = ToolCall(request.id, self.replies, 0, request.tool, request.args, request.raw_args)
        self._calls.append(replace(call, error=UNFINISHED) if outcome is None else _ended(call, outcome))

    def offer(self, tools: Sequence[ToolSpec]) -> None:
        """Say which tools the model was told of."""
        self._tools = tuple(tools) or self._tools

    def transcript(self, total: Usage | None = None) -> Transcript:
        """Give what has been added; ``total`` is what all replies together took, where they do not say."""
        usage = sum((ask.usage for ask in self._asks), NO_USAGE)
        if total is not None and not usage.known_tokens:
            usage = replace(total, asks=self.replies)
        return Transcript(
            tuple(self._messages), tuple(self._calls), tuple(self._asks), usage=usage, tools=self._tools
        )


def as_text(value: Any) -> str:
    """Give a value as the text that a model is shown: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else compact(jsonable(value))


def _ended(call: ToolCall, outcome: CallOutcome) -> ToolCall:
    value = (
        None if outcome.error else shown_value(outcome.content) if outcome.value is None else outcome.value
    )
    return replace(call, result=value, error=outcome.error, started=outcome.started, ended=outcome.ended)


def _finish(calls: Sequence[ToolCall]) -> str:
    return "tool_calls" if calls else "stop"

"""Chats on tape: an ask and its reply as plain JSON, played without any provider's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.scope import untaped
from pytest_agenteval.chat.chat import Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.local.loading import LOADED_BY
from pytest_agenteval.records.plan import Model, RecordMode
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.replies import credible_usage
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.records.transcript import ToolCall, Usage
from pytest_agenteval.text.errors import CassetteMiss

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.interaction import Request
    from pytest_agenteval.cassettes.tape import Tape

# Where and how long to ask says nothing of what is asked; in which numbers a model is loaded does.
ROUTING = frozenset({"api_base", "request_seconds", *LOADED_BY}) - {"dtype", "quantization"}


class ChatTape:
    """One role's recorded asks of one trial, numbered in the order in which they are asked.

    A recording answers an ask of the same role, model, repetition and number with the same messages, tools,
    schema and settings. In mode ``off`` nothing is played and nothing recorded. Where ``sends`` is true, what
    no recording answers is asked all the same.
    """

    def __init__(
        self,
        tape: Tape,
        *,
        role: str,
        model: Model,
        repetition: int,
        mode: RecordMode,
        retry_command: str,
        sends: bool = False,
    ) -> None:
        self._tape, self._role, self._model, self._repetition = tape, role, model, repetition
        self._off, self._retry_command, self._sends = mode == "off", retry_command, sends
        self._params = {name: value for name, value in model.params.items() if name not in ROUTING}
        self._asks = 0

    @property
    def live(self) -> bool:
        """Whether an ask that was not played may be sent."""
        return self._off or self._sends or self._tape.recording

    @property
    def hits(self) -> int:
        """How many asks were played."""
        return self._tape.hits

    @property
    def misses(self) -> int:
        """How many asks were neither played nor could be sent."""
        return self._tape.misses

    @property
    def recorded(self) -> int:
        """How many asks were recorded."""
        return self._tape.recorded

    def request(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[ToolSpec],
        response_schema: Mapping[str, Any] | None,
        settings: ChatSettings,
    ) -> Request:
        """Write the next ask as it stands in the cassette; asking counts it."""
        from pytest_agenteval.cassettes.interaction import chat_request

        self._asks += 1
        body = {
            "model": self._model.id,
            "messages": list(messages),
            "tools": [spec.declaration() for spec in tools],
            "response_schema": response_schema,
            "settings": {**settings.as_params(), **self._params},
        }
        filled = {name: value for name, value in body.items() if value}
        return chat_request(self._role, self._model.name, self._repetition, self._asks, filled)

    def play(self, request: Request) -> Reply | None:
        """Give the recorded reply, or None."""
        from pytest_agenteval.cassettes.interaction import chat_reply

        if self._sends:  # then it is no miss
            found = self._tape.find((request,))
            played = found.response if found else None
        else:
            played = None if self._off else self._tape.play(request)
        return None if played is None else replace(_reply_from_json(chat_reply(played)), taped=True)

    def record(self, request: Request, reply: Reply) -> None:
        """Keep a reply that was really given."""
        from pytest_agenteval.cassettes.interaction import chat_response

        if not self._off and self._tape.recording:
            self._tape.record(request, chat_response(_reply_to_json(reply)))

    def miss(self, request: Request) -> CassetteMiss:
        """Make the error that says what differs from the nearest recording, and how to record this ask."""
        return self._tape.miss(request, self._retry_command)


async def taped_ask(
    tape: ChatTape | None,
    inner: Chat,
    messages: Sequence[ChatMessage],
    *,
    tools: Sequence[ToolSpec],
    response_schema: Mapping[str, Any] | None,
    settings: ChatSettings,
) -> Reply:
    """Give the recorded reply, else the model's, which is then recorded; raises CassetteMiss in a replay.

    While a model is asked, the tape of what agents and tools ask is out of the way.
    """
    if tape is None:
        with untaped():
            return await inner.ask(messages, tools=tools, response_schema=response_schema, settings=settings)
    request = tape.request(messages, tools, response_schema, settings)
    played = tape.play(request)
    if played is not None:
        return played
    if not tape.live:
        raise tape.miss(request)
    with untaped():
        reply = await inner.ask(messages, tools=tools, response_schema=response_schema, settings=settings)
    tape.record(request, reply)
    return reply


def _reply_to_json(reply: Reply) -> dict[str, Any]:
    """Give a reply as JSON, without what is not there."""
    fields = {
        "text": reply.text,
        "calls": [_call_to_json(call) for call in reply.calls],
        "finish": reply.finish,
        "reasoning": reply.reasoning,
        "first_token_s": reply.first_token_s,
    }
    filled = {name: value for name, value in fields.items() if value or name == "text"}
    return {**filled, "usage": reply.usage.to_json()}


def _call_to_json(call: ToolCall) -> dict[str, Any]:
    arguments = {"args": dict(call.args)} if call.raw_args is None else {"raw_args": call.raw_args}
    return {"id": call.id, "tool": call.tool, **arguments}


def _reply_from_json(fields: Mapping[str, Any]) -> Reply:
    """Read a reply back; a hand-written one may leave out whatever it likes."""
    usage = {"asks": 1, "attempts": 1, **fields.get("usage", {})}
    return Reply(
        text=fields.get("text", ""),
        calls=tuple(_call_from_json(index, call) for index, call in enumerate(fields.get("calls", ()))),
        usage=credible_usage(Usage(**usage)),
        finish=fields.get("finish", "stop"),
        reasoning=fields.get("reasoning", ""),
        first_token_s=fields.get("first_token_s"),
    )


def _call_from_json(index: int, call: Mapping[str, Any]) -> ToolCall:
    id = call.get("id", f"call_{index + 1}")
    return ToolCall(id, 0, index, call["tool"], call.get("args", NOTHING), call.get("raw_args"))

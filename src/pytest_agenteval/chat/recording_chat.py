"""The chats of agents and judges: each ask is counted, recorded, and replayed from a cassette."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_agenteval.cassettes.http.scope import untaped
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.local.loading import LOADED_BY
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance, Model, RecordMode
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import JUDGE_ASK, UNTOLD_TOKENS, Ask, ToolCall, Usage
from pytest_agenteval.text.errors import CassetteMiss, ProblemsFound, TrialBroken
from pytest_agenteval.text.json_values import json_digest
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.interaction import Request
    from pytest_agenteval.cassettes.tape import Tape


# Address, timeout and device do not change the reply; dtype and quantization do.
UNRECORDED_PARAMS = frozenset({"api_base", "request_seconds", *LOADED_BY}) - {"dtype", "quantization"}


class ChatTape:
    """One role's recorded asks of one trial, numbered in their order.

    A recording answers an ask of the same role, model, repetition and number with the same messages, tools,
    schema and settings. In mode ``off`` nothing is replayed or recorded. If ``sends``, an ask without a
    recording is sent all the same.
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
        self.tape, self._role, self._model, self._repetition = tape, role, model, repetition
        self._off, self._retry_command, self._sends = mode == "off", retry_command, sends
        self._params = {name: value for name, value in model.params.items() if name not in UNRECORDED_PARAMS}
        self._asks = 0

    @property
    def live(self) -> bool:
        """Whether an ask that was not replayed may be sent."""
        return self._off or self._sends or self.tape.recording

    def request(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Request:
        """Give the next ask in the form of the cassette, and count it."""
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
        from pytest_agenteval.cassettes.interaction import chat_reply

        if self._sends:  # then it is no miss
            found = self.tape.find((request,))
            played = found.response if found else None
        else:
            played = None if self._off else self.tape.play(request)
        return None if played is None else replace(_reply_from_json(chat_reply(played)), taped=True)

    def record(self, request: Request, reply: Reply) -> None:
        from pytest_agenteval.cassettes.interaction import chat_response

        if not self._off and self.tape.recording:
            calls = []
            for call in reply.calls:
                args = {"args": dict(call.args)} if call.raw_args is None else {"raw_args": call.raw_args}
                calls.append({"id": call.id, "tool": call.tool, **args})
            fields: dict[str, Any] = {"text": reply.text, "calls": calls, "finish": reply.finish}
            fields |= {"reasoning": reply.reasoning, "first_token_s": reply.first_token_s}
            filled = {name: value for name, value in fields.items() if value or name == "text"}
            self.tape.record(request, chat_response({**filled, "usage": reply.usage.to_json()}))

    def miss(self, request: Request) -> CassetteMiss:
        """Make the error that names the nearest recording, what differs, and how to record this ask."""
        return self.tape.miss(request, self._retry_command)


async def taped_ask(
    tape: ChatTape | None, inner: Chat, messages: Sequence[ChatMessage], **rest: Any
) -> Reply:
    """Give the recorded reply, else the model's, which is then recorded; a replay raises CassetteMiss.

    The request to the model itself is not part of the recorded traffic of the agent or its tools.
    """
    if tape is None:
        with untaped():
            return await inner.ask(messages, **rest)
    request = tape.request(messages, **rest)
    played = tape.play(request)
    if played is not None:
        return played
    if not tape.live:
        raise tape.miss(request)
    with untaped():
        reply = await inner.ask(messages, **rest)
    tape.record(request, reply)
    return reply


def _reply_from_json(fields: Mapping[str, Any]) -> Reply:
    """Read a recorded reply; one that was written by hand may omit any field."""
    from pytest_agenteval.records.replies import credible_usage

    usage = {"asks": 1, "attempts": 1, **fields.get("usage", {})}
    calls = []
    for index, call in enumerate(fields.get("calls", ())):
        id, args = call.get("id", f"call_{index + 1}"), call.get("args", NOTHING)
        calls.append(ToolCall(id, 0, index, call["tool"], args, call.get("raw_args")))
    return Reply(
        text=fields.get("text", ""),
        calls=tuple(calls),
        usage=credible_usage(Usage(**usage)),
        finish=fields.get("finish", "stop"),
        reasoning=fields.get("reasoning", ""),
        first_token_s=fields.get("first_token_s"),
    )


class AgentChat:
    """The chat of a trial's agent: counts steps, writes the transcript, replays the tape, spends the budget.

    The tokens of an ``offline`` model without cost count as unpaid.
    """

    def __init__(
        self,
        inner: Chat,
        *,
        recorder: Recorder,
        budget: Budget,
        tape: ChatTape | None = None,
        offline: bool = False,
    ) -> None:
        self._inner, self._recorder, self._budget, self._tape = inner, recorder, budget, tape
        self._offline = offline

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the model's next reply; raises LimitReached if the trial has used up its limits."""
        self._budget.step()
        recorder = self._recorder
        recorder.offer_tools(tools)
        recorder.turn += 1
        turn, started = recorder.turn, recorder.at()
        recorder.add_prompt(messages)
        try:
            options = {"tools": tools, "response_schema": response_schema, "settings": settings}
            reply = await taped_ask(self._tape, self._inner, messages, **options)
        except (TrialBroken, ProblemsFound) as broken:
            # The agent may swallow the exception; the trial is broken all the same.
            recorder.broken = broken
            if isinstance(broken, CassetteMiss):
                recorder.add_miss(broken)
            raise
        usage, ended = reply.usage, recorder.at()
        if reply.seconds is not None:  # without the queue, back-off and failed attempts
            started = ended - reply.seconds
        if usage.tokens is None:
            recorder.event(UNTOLD_TOKENS, f"reply {turn}: no token usage")
        ask = Ask(turn, started, ended, usage, reply.finish, reply.first_token_s, reply.reasoning)
        stamped = tuple(replace(call, turn=turn, index=index) for index, call in enumerate(reply.calls))
        unpaid = reply.taped or (self._offline and usage.cost_usd == 0)
        recorder.add_reply(reply.message(), stamped, ask, unpaid=unpaid)
        self._budget.spend(usage)
        return replace(reply, calls=stamped)  # a call keeps its turn wherever it is made


class JudgeChat:
    """The chat of a judge or a simulated user, separate from the agent's budget, messages and usage.

    Each ask is an ``event`` of the trial, with its reply and a digest of the prompt. ``usage`` is what this
    judge took so far, ``budget`` that of all judges of the trial.
    """

    def __init__(
        self,
        inner: Chat,
        *,
        recorder: Recorder,
        budget: Budget | None = None,
        tape: ChatTape | None = None,
        role: str = "judge",
        event: str = JUDGE_ASK,
    ) -> None:
        self._inner, self._recorder, self._tape = inner, recorder, tape
        self._role, self._event = role, event
        self._budget = budget or Budget(Allowance())
        self.usage = Usage()

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the judge's reply; raises LimitReached once the judges' budget is spent."""
        self._budget.step()
        options = {"tools": tools, "response_schema": response_schema, "settings": settings}
        reply = await taped_ask(self._tape, self._inner, messages, **options)
        self.usage = self.usage + reply.usage
        self._budget.spend(reply.usage)
        # A replayed reply costs nothing again.
        if not reply.taped:
            self._recorder.pay(reply.usage)
        details = {
            "role": self._role,
            "taped": reply.taped,
            "usage": reply.usage.to_json(),
            "prompt": json_digest(KNOWN_SECRETS.value(list(messages))),
            "reply": reply.text,
        }
        self._recorder.event(self._event, f"{self._role} was asked", details)
        return reply

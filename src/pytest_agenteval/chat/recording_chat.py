"""The chats that agents and judges hold: what is asked through them is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.chat_tape import ChatTape, taped_ask
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool import ToolSpec
from pytest_agenteval.records.transcript import JUDGE_ASK, UNTOLD_TOKENS, USER_ASK, Ask, ToolCall, Usage
from pytest_agenteval.text.canonical import digest
from pytest_agenteval.text.errors import CassetteMiss, ProblemsFound, TrialBroken
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS


class AgentChat:
    """The chat of a trial's agent: counts steps, writes the transcript, plays the tape, spends the budget.

    What an ``offline`` model says for nothing is paid to nobody, tokens included.
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
        """Give the model's next reply; raises LimitReached where the trial may ask no more."""
        self._budget.step()
        recorder = self._recorder
        recorder.offer_tools(tools)
        recorder.turn += 1
        turn, started = recorder.turn, recorder.at()
        recorder.add_prompt(messages)
        try:
            reply = await taped_ask(
                self._tape,
                self._inner,
                messages,
                tools=tools,
                response_schema=response_schema,
                settings=settings,
            )
        except (TrialBroken, ProblemsFound) as broken:
            recorder.broken = broken
            if isinstance(broken, CassetteMiss):
                recorder.add_miss(broken)
            raise
        usage, ended = reply.usage, recorder.at()
        if reply.seconds is not None:  # what came before: a queue, back-off, failed attempts
            started = ended - reply.seconds
        if usage.tokens is None:
            recorder.event(UNTOLD_TOKENS, f"reply {turn}: no token usage")
        ask = Ask(turn, started, ended, usage, reply.finish, reply.first_token_s, reply.reasoning)
        stamped = _stamped(reply.calls, turn)
        unpaid = reply.taped or (self._offline and usage.cost_usd == 0)
        recorder.add_reply(reply.message(), stamped, ask, unpaid=unpaid)
        self._budget.spend(usage)
        return replace(reply, calls=stamped)  # so that a call knows its turn, whoever makes it


class JudgeChat:
    """The chat of a judge: what it takes is kept apart from the agent's budget, messages and usage.

    Each ask is an event of the trial, with its reply and a digest of what was asked; ``usage`` is what this
    judge has taken so far. ``budget`` is that of all judges of the trial.
    """

    event = JUDGE_ASK

    def __init__(
        self,
        inner: Chat,
        *,
        recorder: Recorder,
        budget: Budget | None = None,
        tape: ChatTape | None = None,
        role: str = "judge",
    ) -> None:
        self._inner, self._recorder, self._tape, self._role = inner, recorder, tape, role
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
        """Give the judge's reply; raises LimitReached where the judges have used up their budget."""
        self._budget.step()
        reply = await taped_ask(
            self._tape, self._inner, messages, tools=tools, response_schema=response_schema, settings=settings
        )
        self.usage = self.usage + reply.usage
        self._budget.spend(reply.usage)
        if not reply.taped:
            self._recorder.pay(reply.usage)
        details = {
            "role": self._role,
            "taped": reply.taped,
            "usage": reply.usage.to_json(),
            "prompt": digest(KNOWN_SECRETS.value(list(messages))),
            "reply": reply.text,
        }
        self._recorder.event(self.event, f"{self._role} was asked", details)
        return reply


class UserChat(JudgeChat):
    """The chat of a model that plays the user: kept apart from the agent's as a judge's is."""

    event = USER_ASK


def _stamped(calls: tuple[ToolCall, ...], turn: int) -> tuple[ToolCall, ...]:
    return tuple(replace(call, turn=turn, index=index) for index, call in enumerate(calls))

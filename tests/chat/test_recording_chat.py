"""What the chats of agents and judges write down, and what they cost themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.offline.scripted import ScriptedChat
from pytest_agenteval.chat.recording_chat import AgentChat, JudgeChat
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import LimitReached, ScriptEnded

FREE = Allowance()
QUESTION: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
SCRIPT: list[dict[str, Any]] = [
    {"text": "let me see", "calls": [{"tool": "a"}, {"tool": "b", "args": {"x": 1}}], "input_tokens": 10},
    {"text": "done", "output_tokens": 5, "seconds": 0.05},
]


def trial(allowed: Allowance = FREE) -> tuple[Recorder, Budget]:
    """Begin a trial."""
    budget = Budget(allowed)
    return Recorder(lambda: budget.at), budget


def test_a_conversation_is_written_down_as_it_happens() -> None:
    """Messages, calls with turn and place, times and usage of each reply stand in the transcript."""
    recorder, budget = trial()
    chat = AgentChat(ScriptedChat(SCRIPT, "t.json"), recorder=recorder, budget=budget)

    async def talk() -> None:
        first = await chat.ask(QUESTION)
        assert [(call.turn, call.index) for call in first.calls] == [(1, 0), (1, 1)]  # for loops of one's own
        results = [{"role": "tool", "tool_call_id": call.id, "content": "1"} for call in first.calls]
        await chat.ask([*QUESTION, first.message(), *results])

    asyncio.run(talk())
    transcript = recorder.transcript()
    assert [(message.role, message.content) for message in transcript.messages] == [
        ("user", "hi"),
        ("assistant", "let me see"),
        ("tool", "1"),
        ("tool", "1"),
        ("assistant", "done"),
    ]
    assert [(call.turn, call.index, call.tool) for call in transcript.messages[1].calls] == [
        (1, 0, "a"),
        (1, 1, "b"),
    ]
    assert [ask.turn for ask in transcript.asks] == [1, 2]
    assert transcript.asks[1].ended - transcript.asks[1].started >= 0.05
    assert (transcript.usage.tokens, transcript.usage.asks, transcript.usage.cost_usd) == (15, 2, 0.0)
    assert (budget.steps, budget.tokens) == (2, 15)


class StrictChat:
    """A chat whose settings have no defaults."""

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec],
        response_schema: Mapping[str, Any] | None,
        settings: ChatSettings,
    ) -> Reply:
        """Show what was given."""
        return Reply(f"{len(tools)} {response_schema} {settings == DEFAULT_SETTINGS}")


@pytest.mark.parametrize("kind", [AgentChat, JudgeChat])
def test_a_chat_gets_every_setting_and_no_other(kind: type[AgentChat] | type[JudgeChat]) -> None:
    """A registered chat needs no defaults; a misspelt argument is an error with the offline models too."""
    recorder, budget = trial()
    chat = kind(StrictChat(), recorder=recorder, budget=budget)
    assert asyncio.run(chat.ask(QUESTION)).text == "0 None True"

    ask: Any = kind(ScriptedChat(SCRIPT, "t.json"), recorder=recorder, budget=budget).ask
    with pytest.raises(TypeError, match="response_shema"):
        asyncio.run(ask(QUESTION, response_shema={}))


def test_a_limit_ends_the_asking_and_a_break_is_noted() -> None:
    """Both reach the agent; what breaks the trial is noted, in case the agent swallows it."""
    recorder, budget = trial(Allowance(steps=1))
    chat = AgentChat(ScriptedChat(SCRIPT, "t.json"), recorder=recorder, budget=budget)
    asyncio.run(chat.ask(QUESTION))
    with pytest.raises(LimitReached, match="steps"):
        asyncio.run(chat.ask(QUESTION))

    recorder, budget = trial()
    chat = AgentChat(ScriptedChat(SCRIPT[1:], "t.json"), recorder=recorder, budget=budget)
    asyncio.run(chat.ask(QUESTION))
    with pytest.raises(ScriptEnded):
        asyncio.run(chat.ask(QUESTION))
    assert isinstance(recorder.broken, ScriptEnded)


def test_a_judge_leaves_the_agents_books_alone() -> None:
    """A judge neither speaks in the conversation nor spends the agent's tokens: its usage is its own."""
    recorder, budget = trial(Allowance(steps=1))
    judge = JudgeChat(ScriptedChat(SCRIPT, "t.json"), recorder=recorder, role="judge gpt")
    asyncio.run(judge.ask(QUESTION))
    reply = asyncio.run(judge.ask(QUESTION))

    transcript = recorder.transcript()
    assert reply.text == "done"
    assert (transcript.messages, transcript.usage.asks, budget.steps, recorder.turn) == ((), 0, 0, 0)
    assert (judge.usage.tokens, judge.usage.asks) == (15, 2)
    assert [event.details["role"] for event in transcript.events] == ["judge gpt"] * 2


class Instant:
    """Answers at once, so that what remains is the trial chat's own cost."""

    reply = Reply(text="ok")

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the same reply again."""
        return self.reply


def test_writing_down_is_cheap() -> None:
    """An ask costs less than 15 µs beside the model (with room for a busy machine: 60)."""

    async def spent(asks: int) -> float:
        best = 1.0
        for _ in range(20):
            recorder, budget = trial()
            chat, messages = AgentChat(Instant(), recorder=recorder, budget=budget), list(QUESTION)
            began = time.perf_counter()
            for _ in range(asks):
                reply = await chat.ask(messages)
                messages.append(reply.message())
            best = min(best, (time.perf_counter() - began) / asks)
        return best

    best = asyncio.run(spent(10))
    print(f"{best * 1e6:.1f} µs")
    assert best < 60e-6

"""Playing an agent without an engine: the real seams, put together by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.benchmarks.memex.card_agent.agent import CardAgent
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.recording_chat import AgentChat
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.limits import Budget, Clock
from pytest_agenteval.records.plan import Allowance, Model, TrialKey
from pytest_agenteval.records.prompts import Prompts
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.tools.toolbox import ToolBox

CARD_SUITE = Path(__file__).parents[4] / "evals" / "card"
NOW = "2026-09-17T20:30:00+00:00"
FACT = "2026/09/17.md#ts_1"
SAVE = "save_timeline_card"
EVERYTHING = Allowance()

Turn = Sequence[tuple[str, Mapping[str, Any]]]


class Acted:
    """A chat that plays given turns, each a list of calls, and then says that it is done."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = list(turns)
        self.heard: list[list[ChatMessage]] = []

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the next turn."""
        number = len(self.heard)
        self.heard.append(list(messages))
        if number >= len(self._turns):
            return Reply("done")
        calls = (
            ToolCall(f"call_{number}_{index}", 0, index, tool, args)
            for index, (tool, args) in enumerate(self._turns[number])
        )
        return Reply("", tuple(calls))


async def _no_more() -> None:
    return None


def context(
    chat: Chat,
    layers: Sequence[Path] = (),
    *,
    at: Path | None = None,
    allowed: Allowance = EVERYTHING,
    prompts: Mapping[str, str] | None = None,
) -> AgentContext:
    """Put a trial's context together."""
    budget = Budget(allowed)
    recorder = Recorder(lambda: budget.at)
    return AgentContext(
        Workspace(layers, at=at),
        ToolBox(recorder),
        AgentChat(chat, recorder=recorder, budget=budget),
        Clock(NOW),
        budget,
        Prompts(CardAgent.templates, prompts or {}),
        _no_more,
        recorder,
        Model("scripted", "scripted", offline=True),
        TrialKey("card", "task", "card", "scripted", "", 1),
    )


def act(agent: CardAgent, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
    """Let an agent do a task."""
    return asyncio.run(agent.run(task_input, ctx))


def reference_calls() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give every call that a reference solution of the card suite makes."""
    for file in sorted(CARD_SUITE.glob("**/task.json")):
        turns = json.loads(file.read_text(encoding="utf-8"))["reference_solution"]["turns"]
        yield from ((call["tool"], call["args"]) for turn in turns for call in turn["calls"])

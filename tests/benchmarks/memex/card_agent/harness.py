"""Playing an agent without an engine: the real seams, put together by hand."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.benchmarks.memex.card_agent.agent import CardAgent
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.recording_chat import AgentChat
from pytest_agenteval.records.evidence import Answer, Evidence, Grade, Outcome
from pytest_agenteval.records.limits import Budget, Clock
from pytest_agenteval.records.plan import Allowance, Model, TrialKey
from pytest_agenteval.records.prompts import Prompts
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registry import Registry
from pytest_agenteval.tasks.workspace import Workspace
from pytest_agenteval.tools.toolbox import ToolBox

CARD_SUITE = Path(__file__).parents[4] / "evals" / "card"
NOW = "2026-09-17T20:30:00+00:00"
FACT = "2026/09/17.md#ts_1"
SAVE = "save_timeline_card"
EVERYTHING = Allowance()

Turn = Sequence[tuple[str, Mapping[str, Any]]]


def registry() -> Registry:
    """Give a registry with everything that is built in or installed."""
    return installed_registry()


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


def evidence(task_input: Mapping[str, Any], answer: Answer, ctx: AgentContext) -> Evidence:
    """Gather what a trial left behind."""
    outcome = Outcome(answer, ctx.workspace.before(), ctx.workspace.after())
    return Evidence(task_input, ctx.transcript.transcript(), outcome)


@dataclass(frozen=True, slots=True)
class CardTask:
    """A task file of the card suite, read as it stands."""

    folder: Path
    definition: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The task's id."""
        return str(self.definition["id"])

    @property
    def reference(self) -> list[Turn]:
        """The turns of the reference solution."""
        turns = self.definition["reference_solution"]["turns"]
        return [[(call["tool"], call["args"]) for call in turn["calls"]] for turn in turns]

    def play(self, chat: Chat) -> Evidence:
        """Let the card agent do the task with a chat."""
        ctx = context(chat, [self.folder / "workspace"])
        try:
            task_input = self.definition["input"]
            return evidence(task_input, act(CardAgent(), task_input, ctx), ctx)
        finally:
            ctx.workspace.remove()

    def grades(self, evidence: Evidence) -> dict[str, Grade]:
        """Apply the task's graders."""
        names, grades = registry(), {}
        for grader in self.definition["graders"]:
            factory = names.grader_factory(grader["name"])
            grade = factory(**grader.get("config", {})).grade(evidence)
            assert not inspect.isawaitable(grade)
            grades[grader["name"]] = replace(grade, threshold=factory.threshold)  # type: ignore[attr-defined]  # ours say it
        return grades


def card_tasks() -> Iterator[CardTask]:
    """Give every task of the card suite."""
    for file in sorted(CARD_SUITE.glob("**/task.json")):
        yield CardTask(file.parent, json.loads(file.read_text(encoding="utf-8")))

"""What a user writes, with every type said: agents, graders, tools, an offline model, hooks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from pytest_agenteval import (
    Agent,
    AgentContext,
    Answer,
    Chat,
    ChatMessage,
    Check,
    Evidence,
    Grade,
    Grader,
    Importer,
    JournalEntry,
    Judge,
    Metric,
    MetricGroup,
    Model,
    Move,
    Plan,
    Registry,
    Reply,
    ReportOption,
    RulesPlayer,
    Scorecard,
    ScorecardMaker,
    ToolCall,
    ToolFailed,
    ToolSpec,
    Trial,
    tool_of,
)


@dataclass(frozen=True)
class Polite:
    """Does the answer hold one of these words?"""

    words: tuple[str, ...] = ("please", "thank you")
    version: ClassVar[str] = "2"
    threshold: ClassVar[float] = 0.5

    def grade(self, evidence: Evidence) -> Grade:
        polite = any(word in evidence.answer.lower() for word in self.words)
        return Grade.from_checks("polite", [Check("the answer is polite", polite, "please", evidence.answer)])


async def short(evidence: Evidence) -> float:
    """A function grades, too."""
    return 1.0 if len(evidence.answer) < 80 else 0.0


@dataclass(frozen=True)
class SecondOpinion:
    """Asks whoever judges."""

    judges: tuple[Judge, ...] = ()

    def with_judges(self, judges: Sequence[Judge]) -> SecondOpinion:
        return replace(self, judges=tuple(judges))

    async def grade(self, evidence: Evidence) -> Grade:
        if not self.judges:
            return Grade("second_opinion", None, "no judge")
        reply = await self.judges[0].chat.ask([{"role": "user", "content": evidence.answer}])
        return Grade("second_opinion", 1.0 if "yes" in reply.text else 0.0, reply.text)


class Careful:
    """An agent that calls each tool once, and looks at its tree."""

    templates: ClassVar[Mapping[str, str]] = {"system": "You are careful."}

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        messages: list[ChatMessage] = [{"role": "system", "content": ctx.prompts.render("system")}]
        messages.append({"role": "user", "content": str(task_input["content"])})
        reply: Reply = await ctx.chat.ask(messages, tools=ctx.tools.specs)
        for call in reply.calls:
            result = await ctx.tools.call(call)
            messages.append(result.message(call))
        ctx.workspace.inside("notes.md").write_text("seen", encoding="utf-8")
        return Answer(reply.text, {"files": len(list(ctx.path.iterdir()))})


def plain(task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
    """A function acts, too."""
    return Answer(str(task_input["content"]))


def knots(kilometres_per_hour: float) -> float:
    """A speed in knots."""
    if kilometres_per_hour < 0:
        raise ToolFailed("a speed is 0 or more")
    return round(kilometres_per_hour / 1.852, 1)


class Echo:
    """An offline model that says what it was told."""

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: Any = None,
    ) -> Reply:
        return Reply(str(messages[-1]["content"]))


def echo(model: Model, plan: Plan) -> Chat:
    """Make the model of one trial."""
    return Echo()


class Names:
    """Imports nothing, and says so."""

    help = "a text file with a name on each line"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("names", metavar="FILE", help="the file")

    def run(self, args: argparse.Namespace, registry: Registry) -> int:
        print(args.names, registry.graders)
        return 0


def play(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Play by rules where there are knots."""
    return Move("27 knots") if messages[-1]["role"] == "tool" else None


def manners(entries: Sequence[JournalEntry], least: float = 0.0) -> Scorecard | None:
    """Count the polite ones."""
    scores = [entry.score for entry in entries if entry.score is not None and entry.score >= least]
    return Scorecard((MetricGroup(Metric("manners", float(len(scores) > 0), tasks=len(scores)), ()),))


agent: Agent = Careful()
grader: Grader = Polite()
importer: Importer = Names()
player: RulesPlayer = play
maker: ScorecardMaker = manners


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer all of it."""
    registry.agent("careful", Careful)
    registry.agent("plain", plain)
    registry.grader("polite", Polite)
    registry.grader("short", short)
    registry.grader("second_opinion", SecondOpinion)
    registry.tool(tool_of(knots))
    registry.model("echo", echo)
    registry.rules_player("knots", play)
    registry.importer("names", Names)
    registry.scorecard(
        "manners", manners, graders=["polite"], options=[ReportOption("--least", "N", "the least", float)]
    )


def pytest_agenteval_trial_finished(config: pytest.Config, trial: Trial) -> None:
    """Look at every trial."""
    calls: list[ToolCall] = list(trial.transcript.calls)
    print(trial.key.task, trial.ending, trial.score, len(calls), trial.to_json()["ending"])

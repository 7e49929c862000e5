"""Our own agents, models and graders, offered through the same hook as everyone else's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from pytest_agenteval.registry.name_table import Deferred

if TYPE_CHECKING:
    from pytest_agenteval.chat.chat import Chat
    from pytest_agenteval.graders.judge.grader import JudgeGrader
    from pytest_agenteval.records.plan import Model, Plan
    from pytest_agenteval.registry.registry import Registry


PACKAGE = "pytest_agenteval"

AGENTS: Mapping[str, str] = {"tool_calling": "agents.loop:ToolCallingAgent"}
MODELS: Mapping[str, str] = {
    "oracle": "chat.offline.scripted:oracle",
    "nop": "chat.offline.scripted:nop",
    "scripted": "chat.offline.scripted:scripted",
    "spoiler": "chat.offline.spoilers.player:spoiler",
}
EXECUTORS: Mapping[str, str] = {
    "local": "engine.executors.local:LocalExecutor",
    "processes": "engine.executors.processes:ProcessExecutor",
    "ray": "engine.executors.cluster.cluster_executor:ClusterExecutor",
}
GRADERS: Mapping[str, str] = {
    "answer_contains": "graders.outcome.answer:AnswerContains",
    "answer_matches": "graders.outcome.answer:AnswerMatches",
    "answer_json": "graders.outcome.answer:AnswerJson",
    "file_exists": "graders.outcome.files:FileExists",
    "file_unchanged": "graders.outcome.files:FileUnchanged",
    "file_contains": "graders.outcome.file_contents:FileContains",
    "file_matches": "graders.outcome.file_contents:FileMatches",
    "file_value": "graders.outcome.file_contents:FileValue",
    "front_matter": "graders.outcome.file_contents:FrontMatter",
    "tool_called": "graders.transcript.tool_usage:ToolCalled",
    "tool_not_called": "graders.transcript.tool_usage:ToolNotCalled",
    "calls_in_order": "graders.transcript.tool_usage:CallsInOrder",
    "call_arguments": "graders.transcript.arguments:CallArguments",
    "step_ceiling": "graders.transcript.budgets:StepCeiling",
    "call_ceiling": "graders.transcript.budgets:CallCeiling",
    "token_ceiling": "graders.transcript.budgets:TokenCeiling",
}
REPORT_FORMATS: Mapping[str, str] = {"atif": "reports.exports.atif_files:write_trajectories"}


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer what is built in; each is imported when a task first names it."""
    for name, place in AGENTS.items():
        registry.agent(name, f"{PACKAGE}.{place}")
    registry.model("rules", partial(_rules, registry))
    for name, place in MODELS.items():
        registry.model(name, f"{PACKAGE}.{place}")
    for name, place in GRADERS.items():
        registry.grader(name, f"{PACKAGE}.{place}")
    registry.grader("judge", Deferred(partial(_judge, registry)))
    registry.rubrics(f"{PACKAGE}:graders/judge/rubrics")
    for name, place in EXECUTORS.items():
        registry.executor(name, f"{PACKAGE}.{place}")
    for name, place in REPORT_FORMATS.items():
        registry.report_format(name, f"{PACKAGE}.{place}")
    registry.report_format("otel", f"{PACKAGE}.reports.exports.otel:export_traces", sends=True)


def _rules(registry: Registry, model: Model, plan: Plan) -> Chat:
    """Make a trial's chat of the model made of rules: it plays by those that are registered."""
    from pytest_agenteval.chat.offline.rules import RulesChat

    return RulesChat(registry.player_of)


def _judge(registry: Registry) -> type[JudgeGrader]:
    """Give the grader by rubric, which finds rubrics by the names that are registered."""
    from pytest_agenteval.graders.judge.grader import JudgeGrader

    bound = {"__slots__": (), "rubric_named": staticmethod(registry.rubric)}
    return type("JudgeGrader", (JudgeGrader,), bound)

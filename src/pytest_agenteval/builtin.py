"""Our own agents, models and graders, offered through the same hook as everyone else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_agenteval.benchmarks.ko_agentbench.graders.groups import GRADERS as KO_GRADERS
from pytest_agenteval.benchmarks.ko_agentbench.graders.groups import GROUPS, OWN

if TYPE_CHECKING:
    from pytest_agenteval.registry import Registry

PACKAGE = "pytest_agenteval"

AGENTS: Mapping[str, str] = {
    "tool_calling": "agents.tool_calling:ToolCallingAgent",
    "card": "benchmarks.memex.card_agent:CardAgent",
    "pkm": "benchmarks.memex.pkm_agent:PkmAgent",
    # As Memex's suites name them, so that a folder of them runs as it is.
    "card_agent": "benchmarks.memex.card_agent:CardAgent",
    "pkm_agent": "benchmarks.memex.pkm_agent:PkmAgent",
}
MODELS: Mapping[str, str] = {
    "rules": "chat.offline.rules:rules",
    "oracle": "chat.offline.oracle:oracle",
    "nop": "chat.offline.nop:nop",
    "scripted": "chat.offline.scripted:scripted",
}
EXECUTORS: Mapping[str, str] = {
    "local": "engine.executors.local:LocalExecutor",
    "processes": "engine.executors.processes:ProcessExecutor",
}
GRADERS: Mapping[str, str] = {
    "answer_contains": "graders.outcome:AnswerContains",
    "answer_matches": "graders.outcome:AnswerMatches",
    "answer_json": "graders.outcome:AnswerJson",
    "file_exists": "graders.outcome:FileExists",
    "file_unchanged": "graders.outcome:FileUnchanged",
    "file_contains": "graders.outcome:FileContains",
    "file_matches": "graders.outcome:FileMatches",
    "file_value": "graders.outcome:FileValue",
    "front_matter": "graders.outcome:FrontMatter",
    "tool_called": "graders.transcript:ToolCalled",
    "tool_not_called": "graders.transcript:ToolNotCalled",
    "calls_in_order": "graders.transcript:CallsInOrder",
    "call_arguments": "graders.transcript:CallArguments",
    "step_ceiling": "graders.transcript:StepCeiling",
    "call_ceiling": "graders.transcript:CallCeiling",
    "token_ceiling": "graders.transcript:TokenCeiling",
    "judge": "graders.judge.grader:JudgeGrader",
    "card_completion": "benchmarks.memex.graders:CardCompletion",
    "card_template_choice": "benchmarks.memex.graders:CardTemplateChoice",
    "card_must_contain": "benchmarks.memex.graders:CardMustContain",
    "card_numbers_given": "benchmarks.memex.graders:CardNumbersGiven",
    "pkm_facts_filed": "benchmarks.memex.graders:PkmFactsFiled",
    "pkm_completion": "benchmarks.memex.graders:PkmCompletion",
    "pkm_routed_correctly": "benchmarks.memex.graders:PkmRoutedCorrectly",
    "pkm_read_before_write": "benchmarks.memex.graders:PkmReadBeforeWrite",
    "pkm_no_overwrite": "benchmarks.memex.graders:PkmNoOverwrite",
    "pkm_insight_quality": "benchmarks.memex.graders:PkmInsightQuality",
    "pkm_append_coherence": "benchmarks.memex.graders:PkmAppendCoherence",
    **KO_GRADERS,
}


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer what is built in; each is imported when a task first names it."""
    for name, place in AGENTS.items():
        registry.agent(name, f"{PACKAGE}.{place}")
    for name, place in MODELS.items():
        registry.model(name, f"{PACKAGE}.{place}")
    for name, place in GRADERS.items():
        registry.grader(name, f"{PACKAGE}.{place}")
    for name, place in EXECUTORS.items():
        registry.executor(name, f"{PACKAGE}.{place}")
    for name, members in GROUPS.items():
        registry.grader_group(name, members)
    registry.scorecard(
        "ko-agentbench",
        f"{PACKAGE}.benchmarks.ko_agentbench.scorecard:scorecard",
        graders=[label for own in OWN.values() for _, label in own],
        options=f"{PACKAGE}.benchmarks.ko_agentbench.scorecard:OPTIONS",
    )
    registry.report_format(
        "ko-agentbench", f"{PACKAGE}.benchmarks.ko_agentbench.report.report_files:write_reports"
    )

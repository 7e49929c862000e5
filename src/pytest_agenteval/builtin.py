"""Our own agents, models and graders, offered through the same hook as everyone else's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_agenteval.graders.ko_agentbench.groups import GRADERS as KO_GRADERS
from pytest_agenteval.graders.ko_agentbench.groups import GROUPS

if TYPE_CHECKING:
    from pytest_agenteval.registry import Registry

PACKAGE = "pytest_agenteval"

AGENTS: Mapping[str, str] = {
    "tool_calling": "agents.tool_calling:ToolCallingAgent",
    "card": "agents.card:CardAgent",
    "pkm": "agents.pkm:PkmAgent",
    # As Memex's suites name them, so that a folder of them runs as it is.
    "card_agent": "agents.card:CardAgent",
    "pkm_agent": "agents.pkm:PkmAgent",
}
MODELS: Mapping[str, str] = {
    "baseline": "chat.offline.baseline:baseline",
    "oracle": "chat.offline.oracle:oracle",
    "nop": "chat.offline.nop:nop",
    "scripted": "chat.offline.scripted:scripted",
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
    "judge": "graders.judge.grader:Judged",
    "card_completion": "graders.memex:CardCompletion",
    "card_template_choice": "graders.memex:CardTemplateChoice",
    "card_must_contain": "graders.memex:CardMustContain",
    "card_numbers_given": "graders.memex:CardNumbersGiven",
    "pkm_facts_filed": "graders.memex:PkmFactsFiled",
    "pkm_completion": "graders.memex:PkmCompletion",
    "pkm_routed_correctly": "graders.memex:PkmRoutedCorrectly",
    "pkm_read_before_write": "graders.memex:PkmReadBeforeWrite",
    "pkm_no_overwrite": "graders.memex:PkmNoOverwrite",
    "pkm_insight_quality": "graders.memex:PkmInsightQuality",
    "pkm_append_coherence": "graders.memex:PkmAppendCoherence",
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
    for name, members in GROUPS.items():
        registry.grader_group(name, members)

"""Our own agents, models and graders, offered through the same hook as everyone else's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_agenteval.registry import Registry

PACKAGE = "pytest_agenteval"


def pytest_agenteval_register(registry: Registry) -> None:
    """Offer what is built in; each is imported when a task first names it."""
    registry.agent("tool_calling", f"{PACKAGE}.agents.tool_calling:ToolCallingAgent")
    registry.agent("card", f"{PACKAGE}.agents.card:CardAgent")
    registry.model("baseline", f"{PACKAGE}.chat.offline.baseline:baseline")
    registry.model("oracle", f"{PACKAGE}.chat.offline.oracle:oracle")
    registry.model("nop", f"{PACKAGE}.chat.offline.nop:nop")
    registry.model("scripted", f"{PACKAGE}.chat.offline.scripted:scripted")
    registry.grader("answer_contains", f"{PACKAGE}.graders.outcome:AnswerContains")
    registry.grader("card_completion", f"{PACKAGE}.graders.memex:CardCompletion")
    registry.grader("card_template_choice", f"{PACKAGE}.graders.memex:CardTemplateChoice")
    registry.grader("card_must_contain", f"{PACKAGE}.graders.memex:CardMustContain")

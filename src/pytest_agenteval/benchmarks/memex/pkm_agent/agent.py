"""The PKM agent itself: one entry in, and either it is filed and has its insight, or it is left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from pytest_agenteval import (
    AgentContext,
    Clock,
    Prompts,
    RepeatedCallGuard,
    StopCondition,
    Tool,
    ToolCall,
    ToolFunction,
    ToolResult,
    Workspace,
    read_templates,
)
from pytest_agenteval.benchmarks.memex.journal.journal_agent import JournalAgent
from pytest_agenteval.benchmarks.memex.pkm_agent.closing_tools import skip, update_insight
from pytest_agenteval.benchmarks.memex.pkm_agent.end_state import pkm_end_state
from pytest_agenteval.benchmarks.memex.pkm_agent.grep_tool import grep
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import KnowledgeBase
from pytest_agenteval.benchmarks.memex.pkm_agent.list_tools import glob, ls, overview
from pytest_agenteval.benchmarks.memex.pkm_agent.read_tools import REMINDER, batch_read, read
from pytest_agenteval.benchmarks.memex.pkm_agent.specs import (
    BATCH_READ,
    EDIT,
    GLOB,
    GREP,
    INSIGHT,
    LS,
    MOVE,
    READ,
    REMOVE,
    SKIP,
    WRITE,
    specs,
)
from pytest_agenteval.benchmarks.memex.pkm_agent.write_tools import edit, move, remove, write

_KNOWLEDGE_BASE_TOOLS: Mapping[str, Callable[[KnowledgeBase, Mapping[str, Any]], Any]] = {
    READ: read,
    BATCH_READ: batch_read,
    WRITE: write,
    EDIT: edit,
    MOVE: move,
    REMOVE: remove,
    LS: ls,
    GLOB: glob,
    GREP: grep,
}


def pkm_tools(workspace: Workspace, clock: Clock) -> tuple[Tool, ...]:
    """Make the tools of one trial, in the order in which the model is told of them."""
    base = KnowledgeBase(workspace)
    functions: dict[str, ToolFunction] = {
        name: partial(function, base) for name, function in _KNOWLEDGE_BASE_TOOLS.items()
    }
    functions |= {INSIGHT: partial(update_insight, workspace, clock), SKIP: skip}
    return tuple(Tool(spec, functions[spec.name]) for spec in specs())


@dataclass(frozen=True, slots=True)
class PkmAgent(JournalAgent):
    """Files one journal entry in the knowledge base and tells what it means there, or skips it.

    An attempt ends with a successful skip or insight, when the model has no more calls, after ``most_asks``
    replies, or when the same call comes five times on end; where a file that was read came with a reminder to
    put it in order, an insight is not the end yet. An entry that is not dealt with is asked for again,
    ``retries`` times; one that is not dealt with even then is no error: the end state says what is missing.

    Whether the user wants an entry kept is for the model to decide: no filter looks at it before.
    """

    templates: ClassVar[Mapping[str, str]] = read_templates(f"{__package__}")

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Tell from the transcript how the entry was dealt with; also true after a crash."""
        fact = task_input.get("fact_id")
        return pkm_end_state(fact if isinstance(fact, str) else "", ctx.transcript.calls).state()

    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        """Make the eleven tools of one trial."""
        return pkm_tools(ctx.workspace, ctx.clock)

    def stop_condition(self) -> StopCondition:
        """Stop once the entry was skipped or has its insight, or the same call came too often."""
        return _AttemptEnd().is_reached

    def system_prompt(self, texts: tuple[tuple[str, str], ...]) -> str:
        """Write the system prompt."""
        return _system_prompt(texts, self.user_language)

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        """Draw the knowledge base at one glance."""
        shown = overview(ctx.workspace)
        return {"tree": shown.tree, "entries": shown.entries, "truncated": shown.truncated}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Say what was done for the entry, and what was not."""
        return {
            "missing": state["missing_requirements"],
            "wrote": state["wrote_para"],
            "insight": state["updated_insight"],
            "skipped": state["skipped_pkm"],
            "changed": state["successful_pkm_mutation"],
        }


class _AttemptEnd:
    """Watches one attempt for its end."""

    def __init__(self) -> None:
        self._guard = RepeatedCallGuard()
        self._reminded = False

    def is_reached(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
        if self._guard.is_stuck(answered):
            return True
        self._reminded = self._reminded or any(_has_reminder(call, result) for call, result in answered)
        successful = {call.tool for call, result in answered if result.error is None}
        return SKIP in successful or (INSIGHT in successful and not self._reminded)


def _has_reminder(call: ToolCall, result: ToolResult) -> bool:
    return call.tool == READ and result.error is None and REMINDER in result.content


# Kept: all trials of a run share one system prompt.
@lru_cache(maxsize=64)
def _system_prompt(texts: tuple[tuple[str, str], ...], language: str) -> str:
    return Prompts(dict(texts), {}).render("system", language=language)

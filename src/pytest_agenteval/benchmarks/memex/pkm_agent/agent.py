"""The PKM agent itself: one entry in, and either it is filed and has its insight, or it is left alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from pytest_agenteval.records.record import FrozenValue

_WRITING = frozenset((WRITE, EDIT))
_CHANGING = _WRITING | {MOVE, REMOVE}


class PkmEndState(FrozenValue, frozen=True):
    """What is known of one entry's way into the knowledge base.

    It is complete when it was filed and has its insight, or when it was skipped and no file was touched.
    ``wrote_para`` says that a file was written with the entry's fact id in the call; ``skip_evidence`` is
    what the agent gave as its reason for skipping, None where it did not skip.
    """

    wrote_para: bool = False
    updated_insight: bool = False
    skipped_pkm: bool = False
    successful_pkm_mutation: bool = False
    skip_evidence: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the entry has come to one of its two proper ends."""
        filed = self.wrote_para and self.updated_insight
        return filed or (self.skipped_pkm and not self.successful_pkm_mutation)

    @property
    def missing(self) -> list[str]:
        """The names of what is missing for either end; of a skip after a change, only that."""
        if self.is_complete:
            return []
        if self.skipped_pkm:
            return ["skip_without_successful_pkm_mutation"]
        met = {
            "wrote_para_with_fact_id": self.wrote_para,
            "updated_timeline_card_insight": self.updated_insight,
            "skip_pkm_organization": False,
        }
        return [name for name, is_met in met.items() if not is_met]

    def state(self) -> dict[str, Any]:
        """Give the end state that graders look at, as JSON values."""
        return {
            "is_complete": self.is_complete,
            "wrote_para": self.wrote_para,
            "updated_insight": self.updated_insight,
            "skipped_pkm": self.skipped_pkm,
            "successful_pkm_mutation": self.successful_pkm_mutation,
            "missing_requirements": self.missing,
            "skip_evidence": self.skip_evidence,
        }


def pkm_end_state(fact_id: str, calls: Iterable[ToolCall]) -> PkmEndState:
    """Gather what the calls tell; a call that failed tells nothing, and whose insight it was is not asked."""
    done = [call for call in calls if call.error is None]
    skips = [call for call in done if call.tool == SKIP]
    return PkmEndState(
        wrote_para=any(call.tool in _WRITING and _mentions(call, fact_id) for call in done),
        updated_insight=any(call.tool == INSIGHT for call in done),
        skipped_pkm=bool(skips),
        successful_pkm_mutation=any(call.tool in _CHANGING for call in done),
        skip_evidence=str(skips[-1].args.get("evidence", "")) if skips else None,
    )


def _mentions(call: ToolCall, fact_id: str) -> bool:
    """Whether the fact id stands anywhere in the arguments, as they were sent."""
    # Not the canonical writer, which refuses NaN: what a model sends is looked at as it is.
    sent = call.raw_args or json.dumps(dict(call.args), ensure_ascii=False, default=str)
    return bool(fact_id) and fact_id in sent


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
        tree_view = overview(ctx.workspace)
        return {"tree": tree_view.tree, "entries": tree_view.entries, "truncated": tree_view.truncated}

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

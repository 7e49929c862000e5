"""The PKM agent itself: one entry in, and either it is filed and has its insight, or it is left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.agents.loop import converse
from pytest_agenteval.benchmarks.memex.journal.entries import format_moment, input_problems, prepared
from pytest_agenteval.benchmarks.memex.journal.runs import EqualCalls, until_complete
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
from pytest_agenteval.limits import Clock
from pytest_agenteval.prompts import Prompts, packaged
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.tools.tool import Tool, ToolFunction, ToolResult
from pytest_agenteval.workspace.workspace import Workspace

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
class PkmAgent:
    """Files one journal entry in the knowledge base and tells what it means there, or skips it.

    A run ends with a successful skip or insight, when the model has no more calls, after ``most_asks``
    replies, or when the same call comes five times on end; where a file that was read came with a reminder to
    put it in order, an insight is not the end yet. An entry that is not dealt with is asked for again,
    ``retries`` times; one that is not dealt with even then is no error: the end state says what is missing.

    Whether the user wants an entry kept is for the model to decide: no filter looks at it before.
    """

    user_language: str = "English"
    most_asks: int = 20
    retries: int = 3

    templates: ClassVar[Mapping[str, str]] = packaged("benchmarks/memex/pkm_agent/prompts")
    input_problems = staticmethod(input_problems)
    prepared = staticmethod(prepared)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Deal with the entry; the answer is what was said last, with the end state."""
        ctx.tools.offer(*pkm_tools(ctx.workspace, ctx.clock))
        messages = self._opening(task_input, ctx)
        return await until_complete(
            partial(self._one_run, ctx, messages),
            partial(self.end_state, task_input, ctx),
            lambda state: messages.append(_unfinished(state, task_input, ctx)),
            self.retries,
        )

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Tell from the transcript how the entry was dealt with; also true after a crash."""
        fact = task_input.get("fact_id")
        return pkm_end_state(fact if isinstance(fact, str) else "", ctx.transcript.calls).state()

    def _opening(self, task_input: Mapping[str, Any], ctx: AgentContext) -> list[dict[str, Any]]:
        found = overview(ctx.workspace)
        entry = ctx.prompts.render(
            "entry",
            tree=found.tree,
            entries=found.entries,
            truncated=found.truncated,
            language=self.user_language,
            fact_id=task_input["fact_id"],
            published=format_moment(ctx.clock.now()),
            content=task_input["content"],
        )
        system = _system(tuple(sorted(ctx.prompts.texts.items())), self.user_language)
        return [{"role": "system", "content": system}, {"role": "user", "content": entry}]

    async def _one_run(self, ctx: AgentContext, messages: list[dict[str, Any]]) -> str:
        return await converse(ctx, messages, finished=_Ending().reached, most_asks=self.most_asks)


class _Ending:
    """Watches one run for its end."""

    def __init__(self) -> None:
        self._calls = EqualCalls()
        self._reminded = False

    def reached(self, answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
        if self._calls.too_many(answered):
            return True
        self._reminded = self._reminded or any(_has_reminder(call, result) for call, result in answered)
        done = {call.tool for call, result in answered if result.error is None}
        return SKIP in done or (INSIGHT in done and not self._reminded)


def _has_reminder(call: ToolCall, result: ToolResult) -> bool:
    return call.tool == READ and result.error is None and REMINDER in result.content


@lru_cache(maxsize=64)
def _system(texts: tuple[tuple[str, str], ...], language: str) -> str:
    # Kept: all trials of a run share one system prompt.
    return Prompts(dict(texts), {}).render("system", language=language)


def _unfinished(state: Mapping[str, Any], task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
    text = ctx.prompts.render(
        "unfinished",
        fact_id=task_input["fact_id"],
        missing=state["missing_requirements"],
        wrote=state["wrote_para"],
        insight=state["updated_insight"],
        skipped=state["skipped_pkm"],
        changed=state["successful_pkm_mutation"],
    )
    return {"role": "user", "content": text}

"""The PKM agent: files what one journal entry says into a knowledge base."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval import (
    AgentContext,
    RepeatedCallGuard,
    StopCondition,
    Tool,
    ToolCall,
    ToolResult,
    read_templates,
)
from pytest_agenteval.benchmarks.memex.journal import JournalAgent
from pytest_agenteval.benchmarks.memex.pkm_agent.reading_tools import REMINDER, overview
from pytest_agenteval.benchmarks.memex.pkm_agent.tools import pkm_tools

INSIGHT = "update_timeline_card_insight"
SKIP = "skip_pkm_organization"


def pkm_end_state(fact_id: str, calls: Iterable[ToolCall]) -> dict[str, Any]:
    """Give how an entry was dealt with, as the calls show it; a call that failed shows nothing.

    It is complete when it was filed and has its insight, or when it was skipped and no file was touched.
    ``wrote_para`` says that a file was written with the entry's fact id in the call; ``skip_evidence`` is
    what the agent gave as its reason for skipping, None where it did not skip.
    """
    done = [call for call in calls if call.error is None]
    skips = [call for call in done if call.tool == SKIP]
    writes = [call for call in done if call.tool in ("Write", "Edit")]
    wrote = any(_mentions(call, fact_id) for call in writes)
    # As in Memex, whose insight it was does not matter here; pkm_completion looks at that.
    insight = any(call.tool == INSIGHT for call in done)
    changed = bool(writes) or any(call.tool in ("Move", "Remove") for call in done)
    complete = (wrote and insight) or (bool(skips) and not changed)
    met = {"wrote_para_with_fact_id": wrote, "updated_timeline_card_insight": insight, SKIP: False}
    missing = [] if complete else [name for name, is_met in met.items() if not is_met]
    if skips and not complete:
        # Of a skip after a change, only that is missing.
        missing = ["skip_without_successful_pkm_mutation"]
    return {
        "is_complete": complete,
        "wrote_para": wrote,
        "updated_insight": insight,
        "skipped_pkm": bool(skips),
        "successful_pkm_mutation": changed,
        "missing_requirements": missing,
        "skip_evidence": str(skips[-1].args.get("evidence", "")) if skips else None,
    }


def _mentions(call: ToolCall, fact_id: str) -> bool:
    """Whether the fact id stands anywhere in the arguments, as they were sent."""
    # Not the canonical writer, which refuses NaN: arguments are looked at as the model sent them.
    sent = call.raw_args or json.dumps(dict(call.args), ensure_ascii=False, default=str)
    return bool(fact_id) and fact_id in sent


@dataclass(frozen=True, slots=True)
class PkmAgent(JournalAgent):
    """Files one journal entry in the knowledge base and tells what it means there, or skips it.

    An attempt ends with a successful skip or insight, when the model has no more calls, after ``most_asks``
    replies, or when the same call comes five times on end. Where a file that was read came with a reminder to
    put it in order, an insight is not the end yet. An entry that is not dealt with is requested again,
    ``retries`` times; one that is not dealt with even then is no error: the end state says what is missing.

    Whether the user wants an entry to be filed is for the model to decide: no filter looks at it before.
    """

    templates: ClassVar[Mapping[str, str]] = read_templates(f"{__package__}")

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Read from the transcript how the entry was dealt with; also called after a crash."""
        fact = task_input.get("fact_id")
        return pkm_end_state(fact if isinstance(fact, str) else "", ctx.transcript.calls)

    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        return pkm_tools(ctx.workspace, ctx.clock)

    def stop_condition(self) -> StopCondition:
        """Stop once the entry is skipped or has its insight, or the same call came too often."""
        guard, reminded = RepeatedCallGuard(), False

        def is_reached(answered: Sequence[tuple[ToolCall, ToolResult]]) -> bool:
            nonlocal reminded
            # The guard comes first, because it has to count the calls of every reply.
            if guard.is_stuck(answered):
                return True
            done = [(call.tool, result.content) for call, result in answered if result.error is None]
            # A reminder holds for the rest of this attempt; the next one starts with a new condition.
            reminded = reminded or any(tool == "Read" and REMINDER in content for tool, content in done)
            successful = {tool for tool, _ in done}
            return SKIP in successful or (INSIGHT in successful and not reminded)

        return is_reached

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        tree_view = overview(ctx.workspace, ctx.clock)
        return {"tree": tree_view.tree, "entries": tree_view.entries, "truncated": tree_view.truncated}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "missing": state["missing_requirements"],
            "wrote": state["wrote_para"],
            "insight": state["updated_insight"],
            "skipped": state["skipped_pkm"],
            "changed": state["successful_pkm_mutation"],
        }

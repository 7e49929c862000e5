"""The card agent itself: one entry in, one finished card out, with a few attempts to get there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval import (
    AgentContext,
    RepeatedCallGuard,
    StopCondition,
    Tool,
    ToolCall,
    read_templates,
)
from pytest_agenteval.benchmarks.memex import journal
from pytest_agenteval.benchmarks.memex.card_agent.tools import SAVE, TAGS, card_tools, catalogue
from pytest_agenteval.benchmarks.memex.journal import JournalAgent, fact_id, read_file


def was_saved(fact_id: str, calls: Iterable[ToolCall]) -> bool:
    saves = (call for call in calls if call.tool == SAVE and call.error is None)
    return any(call.args.get("fact_id") == fact_id for call in saves)


@dataclass(frozen=True, slots=True)
class CardAgent(JournalAgent):
    """Makes the timeline card of one journal entry.

    An attempt ends with a successful save, when the model has no more calls, after ``most_asks`` replies, or
    when the same call comes five times on end. An unfinished card is requested again, ``retries`` times; one
    that is unfinished even then is no error: the end state says what is missing.
    """

    templates: ClassVar[Mapping[str, str]] = read_templates(f"{__package__}")

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Read from transcript and disk how far the card has come; also called after a crash."""
        # An input that never made sense still gets an end state with all its keys.
        target = str(task_input.get("fact_id", ""))
        fact = fact_id(target)
        path = "" if fact is None else fact.card_file
        blob = read_file(ctx.workspace, path) if path else None
        saved = was_saved(target, ctx.transcript.calls)
        return journal.card_end_state(journal.parse_card(blob), target, saved, path, blob or "")

    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        return card_tools(ctx.workspace, ctx.clock)

    def stop_condition(self) -> StopCondition:
        guard = RepeatedCallGuard()
        # The guard comes first, because it has to count the calls of every reply.
        return lambda answered: (
            guard.is_stuck(answered)
            or any(call.tool == SAVE and result.error is None for call, result in answered)
        )

    def prompt_values(self) -> Mapping[str, Any]:
        return {"templates": tuple(catalogue().values()), "tags": TAGS}

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        return {"tags": TAGS}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"missing": state["missing_requirements"]}

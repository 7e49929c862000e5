"""The card agent itself: one entry in, one finished card out, with a few attempts to get there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from pytest_agenteval import AgentContext, Prompts, RepeatedCallGuard, StopCondition, Tool, read_templates
from pytest_agenteval.benchmarks.memex.card_agent.arguments import TAGS
from pytest_agenteval.benchmarks.memex.card_agent.catalogue import catalogue
from pytest_agenteval.benchmarks.memex.card_agent.end_state import CardEndState, was_saved
from pytest_agenteval.benchmarks.memex.card_agent.tools import SAVE, card_tools
from pytest_agenteval.benchmarks.memex.journal import card_yaml
from pytest_agenteval.benchmarks.memex.journal.entries import fact_id, read
from pytest_agenteval.benchmarks.memex.journal.journal_agent import JournalAgent


@dataclass(frozen=True, slots=True)
class CardAgent(JournalAgent):
    """Makes the timeline card of one journal entry.

    An attempt ends with a successful save, when the model has no more calls, after ``most_asks`` replies, or
    when the same call comes five times on end. An unfinished card is asked for again, ``retries`` times; one
    that is unfinished even then is no error: the end state says what is missing.
    """

    templates: ClassVar[Mapping[str, str]] = read_templates(f"{__package__}")

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Tell from transcript and disk how far the card has come; also true after a crash."""
        target = str(task_input.get("fact_id", ""))
        fact = fact_id(target)
        path = "" if fact is None else fact.card_file
        blob = read(ctx.workspace, path) if path else None
        saved = was_saved(target, ctx.transcript.calls)
        return CardEndState(target, saved, card_yaml.read(blob), path, blob or "").state()

    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        """Make the two tools of one trial."""
        return card_tools(ctx.workspace, ctx.clock)

    def stop_condition(self) -> StopCondition:
        """Stop once a card was saved, or the same call came too often."""
        guard = RepeatedCallGuard()
        return lambda answered: (
            guard.is_stuck(answered)
            or any(call.tool == SAVE and result.error is None for call, result in answered)
        )

    def system_prompt(self, texts: tuple[tuple[str, str], ...]) -> str:
        """Write the system prompt, which shows the catalogue of templates."""
        return _system_prompt(texts, self.user_language)

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        """Name the tags that a card can have."""
        return {"tags": TAGS}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Name what the card lacks."""
        return {"missing": state["missing_requirements"]}


# Kept: all trials of a run share one system prompt, and the catalogue is long.
@lru_cache(maxsize=64)
def _system_prompt(texts: tuple[tuple[str, str], ...], language: str) -> str:
    templates = tuple(catalogue().values())
    return Prompts(dict(texts), {}).render("system", templates=templates, tags=TAGS, language=language)

"""The card agent itself: one entry in, one finished card out, with a few runs to get there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.agents.loop import Finished, converse
from pytest_agenteval.benchmarks.memex.card_agent.arguments import TAGS
from pytest_agenteval.benchmarks.memex.card_agent.catalogue import catalogue
from pytest_agenteval.benchmarks.memex.card_agent.end_state import CardEndState, was_saved
from pytest_agenteval.benchmarks.memex.card_agent.tools import SAVE, card_tools
from pytest_agenteval.benchmarks.memex.journal import card_yaml
from pytest_agenteval.benchmarks.memex.journal.entries import (
    fact_id,
    format_moment,
    input_problems,
    prepared,
    read,
)
from pytest_agenteval.benchmarks.memex.journal.runs import EqualCalls, until_complete
from pytest_agenteval.prompts import Prompts, packaged
from pytest_agenteval.records.evidence import Answer


@dataclass(frozen=True, slots=True)
class CardAgent:
    """Makes the timeline card of one journal entry.

    A run ends with a successful save, when the model has no more calls, after ``most_asks`` replies, or when
    the same call comes five times on end. An unfinished card is asked for again, ``retries`` times; one that
    is unfinished even then is no error: the end state says what is missing.
    """

    user_language: str = "English"
    most_asks: int = 20
    retries: int = 3

    templates: ClassVar[Mapping[str, str]] = packaged("benchmarks/memex/card_agent/prompts")
    input_problems = staticmethod(input_problems)
    prepared = staticmethod(prepared)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Make the card; the answer is what was said last, with the end state."""
        ctx.tools.offer(*card_tools(ctx.workspace, ctx.clock))
        messages = self._opening(task_input, ctx)
        return await until_complete(
            partial(self._one_run, ctx, messages),
            partial(self.end_state, task_input, ctx),
            lambda state: messages.append(_unfinished(state, task_input, ctx)),
            self.retries,
        )

    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Tell from transcript and disk how far the card has come; also true after a crash."""
        target = str(task_input.get("fact_id", ""))
        fact = fact_id(target)
        path = "" if fact is None else fact.card_file
        blob = read(ctx.workspace, path) if path else None
        found = CardEndState(
            target, was_saved(target, ctx.transcript.calls), card_yaml.read(blob), path, blob or ""
        )
        return found.state()

    def _opening(self, task_input: Mapping[str, Any], ctx: AgentContext) -> list[dict[str, Any]]:
        entry = ctx.prompts.render(
            "entry",
            language=self.user_language,
            tags=TAGS,
            fact_id=task_input["fact_id"],
            published=format_moment(ctx.clock.now()),
            content=task_input["content"],
        )
        system = _system(tuple(sorted(ctx.prompts.texts.items())), self.user_language)
        return [{"role": "system", "content": system}, {"role": "user", "content": entry}]

    async def _one_run(self, ctx: AgentContext, messages: list[dict[str, Any]]) -> str:
        return await converse(ctx, messages, finished=_ending(), most_asks=self.most_asks)


def _ending() -> Finished:
    """Watch one run for its end: a card was saved, or the same call came too often."""
    calls = EqualCalls()
    return lambda answered: (
        calls.too_many(answered)
        or any(call.tool == SAVE and result.error is None for call, result in answered)
    )


@lru_cache(maxsize=64)
def _system(texts: tuple[tuple[str, str], ...], language: str) -> str:
    # Kept: all trials of a run share one system prompt.
    templates = tuple(catalogue().values())
    return Prompts(dict(texts), {}).render("system", templates=templates, tags=TAGS, language=language)


def _unfinished(state: Mapping[str, Any], task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
    missing, fact = state["missing_requirements"], task_input["fact_id"]
    text = ctx.prompts.render("unfinished", fact_id=fact, missing=missing)
    return {"role": "user", "content": text}

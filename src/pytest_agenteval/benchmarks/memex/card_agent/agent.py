"""The card agent itself: one entry in, one finished card out, with a few attempts to get there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from pytest_agenteval import (
    AgentContext,
    Prompts,
    RepeatedCallGuard,
    StopCondition,
    Tool,
    ToolCall,
    read_templates,
)
from pytest_agenteval.benchmarks.memex import journal
from pytest_agenteval.benchmarks.memex.card_agent.tools import SAVE, TAGS, card_tools, catalogue
from pytest_agenteval.benchmarks.memex.journal import JournalAgent, fact_id, read_file, template_id
from pytest_agenteval.records.record import FrozenValue


class CardEndState(FrozenValue, frozen=True):
    """The state of one card.

    ``card`` is what its file holds, None when there is no file. ``saved`` says that a save of this very card
    succeeded; where ``save_required`` is false none is needed.
    """

    fact_id: str
    saved: bool
    card: Mapping[str, Any] | None
    path: str = ""
    blob: str = ""
    save_required: bool = True

    @property
    def missing(self) -> list[str]:
        """The names of all requirements that are not met, in their own order."""
        card = self.card or {}
        # Names and order are those of Memex, so that figures can be compared.
        met = {
            "matching_successful_save_timeline_card_tool_call": self.saved or not self.save_required,
            "card_file_exists": self.card is not None,
            "persisted_fact_id_matches": card.get("fact_id") == self.fact_id,
            "status_completed": card.get("status") == "completed",
            "title_present": self.has_title,
            "ui_configs_present": bool(self.configs),
        }
        return [name for name, is_met in met.items() if not is_met]

    @property
    def has_title(self) -> bool:
        """Whether the card has a title that is not blank."""
        title = (self.card or {}).get("title")
        return isinstance(title, str) and bool(title.strip())

    @property
    def configs(self) -> list[Any]:
        configs = (self.card or {}).get("ui_configs")
        return configs if isinstance(configs, list) else []

    def state(self) -> dict[str, Any]:
        """Give the end state that graders look at, as JSON values."""
        card, missing = self.card or {}, self.missing
        tags = card.get("tags")
        reason = f"the card is not finished: {', '.join(missing)}" if missing else None
        return {
            "is_complete": not missing,
            "card_save_tool_called": self.saved or not self.save_required,
            "card_path": self.path,
            "persisted_fact_id": _text(card.get("fact_id")),
            "status": _text(card.get("status")),
            "has_title": self.has_title,
            "has_ui_configs": bool(self.configs),
            "missing_requirements": missing,
            "failure_reason": _text(card.get("failure_reason")) or reason,
            "template_ids": [template_id(config) for config in self.configs],
            "card_tags": [str(tag) for tag in tags] if isinstance(tags, list) else [],
            "card_yaml_blob": self.blob,
        }


def was_saved(fact_id: str, calls: Iterable[ToolCall]) -> bool:
    saves = (call for call in calls if call.tool == SAVE and call.error is None)
    return any(call.args.get("fact_id") == fact_id for call in saves)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


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
        return CardEndState(target, saved, journal.parse_card(blob), path, blob or "").state()

    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        return card_tools(ctx.workspace, ctx.clock)

    def stop_condition(self) -> StopCondition:
        guard = RepeatedCallGuard()
        # The guard comes first, because it has to count the calls of every reply.
        return lambda answered: (
            guard.is_stuck(answered)
            or any(call.tool == SAVE and result.error is None for call, result in answered)
        )

    def system_prompt(self, texts: tuple[tuple[str, str], ...]) -> str:
        return _system_prompt(texts, self.user_language)

    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        return {"tags": TAGS}

    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"missing": state["missing_requirements"]}


# Made once, because all trials of a run share one system prompt and the catalogue is long.
@lru_cache(maxsize=64)
def _system_prompt(texts: tuple[tuple[str, str], ...], language: str) -> str:
    templates = tuple(catalogue().values())
    return Prompts(dict(texts), {}).render("system", templates=templates, tags=TAGS, language=language)

"""The two tools that end the work on an entry: its insight, or leaving it alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_agenteval import Clock, OutsideWorkspace, ToolFailed, Workspace
from pytest_agenteval.benchmarks.memex.journal import card_yaml
from pytest_agenteval.benchmarks.memex.journal.entries import (
    DailyEntry,
    FactId,
    describe_value,
    fact_id,
    find_entry,
    read,
    write,
)
from pytest_agenteval.benchmarks.memex.pkm_agent.arguments import bad_argument, required_text, texts
from pytest_agenteval.benchmarks.memex.pkm_agent.knowledge_base import count_of

COMPANION = "0"
"""The character that speaks an insight: the journal's own."""


def update_insight(workspace: Workspace, clock: Clock, args: Mapping[str, Any]) -> str:
    """Write an entry's insight into its card, and nothing else there; a card that is missing is begun."""
    fact = _fact("fact_id", args.get("fact_id"))
    text = required_text(args, "insight_text").strip()
    related = _related_facts(fact, texts(args, "related_fact_ids"))
    entry = find_entry(read(workspace, fact.daily_file), fact)
    if entry is None:
        raise ToolFailed(f"there is no entry {fact.entry} in {fact.daily_file}", "not_found")
    card = _card(workspace, fact) or _pending_card(fact, entry, clock)
    facts = [{"id": other} for other in related]
    card["insight"] = {"text": text, "related_facts": facts, "character_id": COMPANION}
    write(workspace, fact.card_file, card_yaml.write(card))
    tied = f", tied to {count_of(len(related), 'other fact')}" if related else ""
    return f"The insight is on the card of {fact.text}{tied}."


def skip(args: Mapping[str, Any]) -> str:
    """Take note that an entry is not to be filed; nothing is written."""
    required_text(args, "evidence")
    return "The entry is left alone; nothing was filed."


def _fact(name: str, value: Any) -> FactId:
    fact = fact_id(value)
    if fact is None:
        described = "nothing" if value is None else describe_value(value)
        raise bad_argument(f"{name} must look like 2026/09/17.md#ts_1, not {described}")
    return fact


def _related_facts(fact: FactId, named_ids: list[str]) -> list[str]:
    """Give the other entries, each once, in the order in which they were named."""
    ids = (_fact("each of related_fact_ids", id).text for id in named_ids)
    return [id for id in dict.fromkeys(ids) if id != fact.text]


def _card(workspace: Workspace, fact: FactId) -> dict[str, Any] | None:
    """Read the card; raises ToolFailed where it could not be written back as it was."""
    _refuse_links(workspace, fact)
    blob = read(workspace, fact.card_file)
    card = card_yaml.read(blob)
    if blob is not None and blob.strip() and not card:
        raise ToolFailed(f"the card of {fact.text} is no YAML map, and stays as it is", "card_broken")
    return card


def _refuse_links(workspace: Workspace, fact: FactId) -> None:
    """Refuse a card that is elsewhere: the path to it must be what it seems."""
    try:
        real = workspace.inside(fact.card_file)
    except OutsideWorkspace:
        real = None
    if real != workspace.path.resolve() / fact.card_file:
        raise ToolFailed(f"the card of {fact.text} is behind a symbolic link", "outside")


def _pending_card(fact: FactId, entry: DailyEntry, clock: Clock) -> dict[str, Any]:
    """Begin a card as the journal begins one: it waits to be made."""
    written_at = entry.written_at.replace(tzinfo=clock.now().tzinfo)
    return {
        "fact_id": fact.text,
        "timestamp": int(written_at.timestamp()),
        "status": "pending",
        "tags": [],
        "ui_configs": [],
    }

"""The two tools of the card agent."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache, partial
from typing import Any

from pytest_agenteval import Clock, Tool, ToolFailed, ToolSpec, Workspace
from pytest_agenteval.benchmarks.memex.card_agent.arguments import TAGS, CardDraft, read_card_draft
from pytest_agenteval.benchmarks.memex.card_agent.catalogue import catalogue
from pytest_agenteval.benchmarks.memex.journal import card_yaml
from pytest_agenteval.benchmarks.memex.journal.entries import JournalEntry, find_entry, read, write

METADATA = "get_card_metadata"
SAVE = "save_timeline_card"

_LAST_KEYS = ("comments", "insight", "deleted")
_TEXT = {"type": "string"}


def card_tools(workspace: Workspace, clock: Clock) -> tuple[Tool, Tool]:
    """Make the tools of one trial."""
    metadata, save = specs()
    return Tool(metadata, tags_in_use), Tool(save, partial(save_card, workspace, clock))


@cache
def specs() -> tuple[ToolSpec, ToolSpec]:
    """Declare the tools; they check their own arguments and touch nothing but the workspace."""
    return (
        ToolSpec(
            METADATA,
            "Lists the tags that a card can have.",
            {"type": "object", "properties": {}},
            False,
            False,
            False,
        ),
        ToolSpec(SAVE, "Saves the finished card of an entry.", _save_parameters(), False, False, False),
    )


def _save_parameters() -> dict[str, Any]:
    config = {
        "type": "object",
        "properties": {
            "template_id": {"type": "string", "enum": list(catalogue())},
            "data": {"type": "object", "description": "the template's fields"},
        },
        "required": ["template_id", "data"],
    }
    tag = {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": list(TAGS)}, "icon": _TEXT},
        "required": ["name"],
    }
    return {
        "type": "object",
        "properties": {
            "fact_id": {"type": "string", "description": "the entry's fact id, exactly as given"},
            "title": {"type": "string", "description": "the card's title, short and plain"},
            "ui_configs": {"type": "array", "items": config, "minItems": 1},
            "address": {"type": "string", "description": "where the user was at that moment"},
            "user_mark_address": {"type": "string", "description": "an address the user wants pinned"},
            "content_creation_date": {"type": "string", "description": "YYYY-MM-DD HH:MM:SS"},
            "tags": {"type": "array", "items": tag},
        },
        "required": ["fact_id", "title", "ui_configs"],
    }


def tags_in_use(args: Mapping[str, Any]) -> str:
    """List the tags."""
    return f"The journal's tags: {', '.join(TAGS)}"


def save_card(workspace: Workspace, clock: Clock, args: Mapping[str, Any]) -> str:
    """Save a card over what may already be there; raises ToolFailed when it cannot be."""
    wanted = read_card_draft(args)
    fact = wanted.fact
    found = find_entry(read(workspace, fact.daily_file), fact)
    if found is None:
        raise ToolFailed(f"there is no entry {fact.entry} in {fact.daily_file}", "not_found")
    old = card_yaml.read(read(workspace, fact.card_file)) or {}
    write(workspace, fact.card_file, card_yaml.write(_card(wanted, found, old, clock)))
    return f"The card of {fact.text} is saved." + (f" Note: {wanted.warning}." if wanted.warning else "")


def _card(wanted: CardDraft, found: JournalEntry, old: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """Put the card together in its file's order; what was not given stays as it was."""
    card: dict[str, Any] = {
        "fact_id": wanted.fact.text,
        "timestamp": _timestamp(wanted, found, old, clock),
        "status": "completed",
        "tags": list(wanted.tags) or old.get("tags") or [],
        "ui_configs": list(wanted.configs),
        "title": wanted.title,
    }
    address = wanted.address or old.get("address")
    if address:
        card["address"] = address
    card |= {key: value for key, value in old.items() if str(key).startswith("user_fixed_")}
    if wanted.user_mark_address:
        card["user_fixed_address"] = wanted.user_mark_address
    return card | {key: old[key] for key in _LAST_KEYS if key in old}


def _timestamp(wanted: CardDraft, found: JournalEntry, old: Mapping[str, Any], clock: Clock) -> int:
    """Give the card's moment: as told, else as it was, else when the entry was written."""
    was = old.get("timestamp")
    if wanted.created is None and isinstance(was, int):
        return was
    moment: datetime = wanted.created or found.written
    return int((moment if moment.tzinfo else moment.replace(tzinfo=clock.now().tzinfo)).timestamp())

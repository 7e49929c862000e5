"""Playing the card agent: one card from the first idea, a plainer one if that is refused, then no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pytest_agenteval.benchmarks.memex.rules.card_fields import Note, filled, hashtags, sentence, title
from pytest_agenteval.benchmarks.memex.rules.card_rules import ideas
from pytest_agenteval.chat.chat import ChatMessage
from pytest_agenteval.chat.offline.rules import Move, block, failed, text_of
from pytest_agenteval.records.tool import ToolSpec

Config: TypeAlias = Mapping[str, Any]

SAVE = "save_timeline_card"
MOST_TEMPLATES = 2


def play(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Give the next move; None where no entry was given."""
    place, note = _entry(messages)
    if note is None:
        return None
    answers = [message for message in messages[place:] if message["role"] == "tool"]
    if not answers:
        return _save(note, _first_idea(note), tags=[{"name": tag} for tag in hashtags(note.text)])
    if len(answers) == 1 and failed(answers[0]):
        return _save(note, _plainest(note))
    return Move("I have no better idea for this card." if failed(answers[-1]) else "The card is saved.")


def _entry(messages: Sequence[ChatMessage]) -> tuple[int, Note | None]:
    """Find the last message that holds an entry, and read it."""
    for place in range(len(messages) - 1, -1, -1):
        text = text_of(messages[place])
        if messages[place]["role"] == "user" and (fact := block(text, "fact_id")) is not None:
            return place, Note(fact, block(text, "published") or "", (block(text, "entry") or "").strip())
    return 0, None


def _first_idea(note: Note) -> list[Config]:
    """Take the first templates that come to mind, where their fields can be filled."""
    made = ((id, filled(id, note)) for id in ideas(note.text))
    configs: list[Config] = [{"template_id": id, "data": data} for id, data in made if data]
    return configs[:MOST_TEMPLATES] or _plainest(note)


def _plainest(note: Note) -> list[Config]:
    if any(letter.isalnum() for letter in note.text):
        return [{"template_id": "snippet", "data": {"text": sentence(note.text)}}]
    return [{"template_id": "compact", "data": {"color": "#9E9E9E", "title": note.text}}]


def _save(note: Note, configs: list[Config], **more: Any) -> Move:
    given = {name: value for name, value in more.items() if value}
    card = {"fact_id": note.fact_id, "title": title(note.text), "ui_configs": configs, **given}
    return Move("", ((SAVE, card),))

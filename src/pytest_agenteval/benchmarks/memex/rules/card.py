"""Playing the card agent: one card from what comes to mind, a plainer one if that is refused.

The rules are meant to be plausible and no more. Do not tune them to tasks: what they miss is what makes a
first run worth looking at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pytest_agenteval import ChatMessage, Move, ToolSpec
from pytest_agenteval.benchmarks.memex.rules import block, last_entry
from pytest_agenteval.chat.offline.rules import is_failed_result
from pytest_agenteval.records.record import FrozenValue

_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_CLOCK = r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9]"
_MONEY = r"[$€£¥]\s?[0-9]|[0-9.,]+\s?(?:[$€£¥]|euros?\b|eur\b|dollars?\b|usd\b|pounds?\b)"

RULES: tuple[tuple[str, str], ...] = (
    ("link", r"https?://\S+"),
    ("transaction", _MONEY),
    ("event", rf"\b{_CLOCK}\b|\b{_DAY}\b|\b(?:today|tonight|tomorrow|next week)\b"),
    ("metric", r"\b[0-9]+"),
    ("rating", r"\b[0-9]+\s?(?:/|out of)\s?(?:5|10)\b|\bstars\b"),
    ("routine", r"\bevery\b|\bdaily\b|\bhabit\b"),
    ("quote", r"[\"“][^\"“”]{15,}[\"”]"),
    ("task", r"\b(?:must|need to|have to|has to|should|remember to|don't forget|todo)\b"),
    ("progress", r"\b(?:progress|finished|halfway)\b|[0-9] ?% done"),
    ("mood", r"\b(?:happy|sad|angry|proud|annoyed|worried|anxious|excited|tired|relieved|lonely|grateful)\b"),
    ("person", r"\b(?:met|introduced to|talked to|spoke with)\b"),
    ("place", r"\b(?:visited|went to|stopped by|cafe|café|restaurant|museum|park)\b"),
)

_PATTERNS = tuple((id, re.compile(pattern, re.IGNORECASE)) for id, pattern in RULES)


def template_cues(text: str) -> list[str]:
    """Give the ids of all templates with a cue in the text, the earliest cue first, then by rule."""
    first_cues = ((pattern.search(text), id) for id, pattern in _PATTERNS)
    return [
        id for _, id in sorted(((cue.start(), id) for cue, id in first_cues if cue), key=lambda hit: hit[0])
    ]


TITLE_WORDS = 4


class CardEntry(FrozenValue, frozen=True):
    """An entry as the user message gave it."""

    fact_id: str
    published: str
    text: str


def title(text: str) -> str:
    """Take the first words; of an entry without a word, say so."""
    return " ".join(text.split()[:TITLE_WORDS]) or "Empty note"


def fill_template(id: str, note: CardEntry) -> Mapping[str, Any] | None:
    """Fill a template's required fields; None where the entry does not have what they need."""
    return _FILLERS[id](note)


def _link(note: CardEntry) -> Mapping[str, Any] | None:
    match = re.search(r"https?://\S+", note.text)
    return {"url": match[0]} if match else None


def _transaction(note: CardEntry) -> Mapping[str, Any] | None:
    match = re.search(r"[$€£¥]?\s?[0-9]+(?:[.,][0-9]+)*\s?(?:[$€£¥]|[a-z]+)?", note.text, re.IGNORECASE)
    return {"merchant": name(note.text), "amount": match[0].strip()} if match else None


def _routine(note: CardEntry) -> Mapping[str, Any]:
    return {"habit_name": title(note.text), "streak": 1}


def _rating(note: CardEntry) -> Mapping[str, Any] | None:
    score = number(note.text)
    return None if score is None else {"subject": name(note.text), "score": score}


def _quote(note: CardEntry) -> Mapping[str, Any] | None:
    match = re.search(r"[\"“]([^\"“”]+)[\"”]", note.text)
    return {"content": match[1]} if match else None


def _metric(note: CardEntry) -> Mapping[str, Any] | None:
    value = number(note.text)
    return None if value is None else {"items": [{"title": title(note.text), "value": value}]}


def _event(note: CardEntry) -> Mapping[str, Any] | None:
    """Take the day of publication: working out "tomorrow" is more than these rules can do."""
    day = re.search(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", note.published)
    clock = re.search(r"\b([01]?[0-9]|2[0-3]):([0-5][0-9])\b", note.text)
    hour = f"{int(clock[1]):02}:{clock[2]}" if clock else "09:00"
    return {"title": title(note.text), "start_time": f"{day[0]}T{hour}:00"} if day else None


def _task(note: CardEntry) -> Mapping[str, Any]:
    return {"title": title(note.text), "is_completed": False}


def _progress(note: CardEntry) -> Mapping[str, Any] | None:
    match = re.search(r"\b([0-9]+) of ([0-9]+)\b", note.text)
    return {"current": int(match[1]), "total": int(match[2]), "title": title(note.text)} if match else None


def _mood(note: CardEntry) -> Mapping[str, Any]:
    return {"mood_name": title(note.text), "color_hex": "#8888AA"}


def _name_fields(note: CardEntry) -> Mapping[str, Any]:
    return {"name": name(note.text)}


_FILLERS: Mapping[str, Callable[[CardEntry], Mapping[str, Any] | None]] = {
    "link": _link,
    "transaction": _transaction,
    "routine": _routine,
    "rating": _rating,
    "quote": _quote,
    "metric": _metric,
    "event": _event,
    "task": _task,
    "progress": _progress,
    "mood": _mood,
    "person": _name_fields,
    "place": _name_fields,
}


def name(text: str) -> str:
    """Take the first words in a row that begin with a capital, unless they only begin a sentence."""
    match = re.search(r"(?<=[\w,;] )[A-Z]\w+(?: [A-Z]\w+)*|\b[A-Z]\w+(?: [A-Z]\w+)+", text)
    return match[0] if match else title(text)


def sentence(text: str) -> str:
    """Take the first sentence."""
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def hashtags(text: str) -> list[str]:
    """Take every word with a hash before it, whether or not there is such a tag."""
    return re.findall(r"#(\w+)", re.sub(r"https?://\S+", "", text))


def number(text: str) -> float | int | None:
    """Take the first number."""
    match = re.search(r"[0-9]+(?:\.[0-9]+)?", text)
    if match is None:
        return None
    return float(match[0]) if "." in match[0] else int(match[0])


Config: TypeAlias = Mapping[str, Any]

SAVE = "save_timeline_card"
MOST_TEMPLATES = 2


def play(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> Move | None:
    """Give the next move; None where no entry was given."""
    entry = last_entry(messages)
    if entry is None:
        return None
    place, note = entry[0], _read_entry(*entry[1:])
    answers = [message for message in messages[place:] if message["role"] == "tool"]
    if not answers:
        return _save(note, _first_templates(note), tags=[{"name": tag} for tag in hashtags(note.text)])
    if len(answers) == 1 and is_failed_result(answers[0]):
        return _save(note, _plainest(note))
    return Move(
        "I have no better idea for this card." if is_failed_result(answers[-1]) else "The card is saved."
    )


def _read_entry(fact: str, text: str) -> CardEntry:
    return CardEntry(fact, block(text, "published") or "", (block(text, "entry") or "").strip())


def _first_templates(note: CardEntry) -> list[Config]:
    """Take the first templates that come to mind, where their fields can be filled."""
    filled = ((id, fill_template(id, note)) for id in template_cues(note.text))
    configs: list[Config] = [{"template_id": id, "data": data} for id, data in filled if data]
    return configs[:MOST_TEMPLATES] or _plainest(note)


def _plainest(note: CardEntry) -> list[Config]:
    if any(letter.isalnum() for letter in note.text):
        return [{"template_id": "snippet", "data": {"text": sentence(note.text)}}]
    return [{"template_id": "compact", "data": {"color": "#9E9E9E", "title": note.text}}]


def _save(note: CardEntry, configs: list[Config], **more: Any) -> Move:
    set_fields = {name: value for name, value in more.items() if value}
    card = {"fact_id": note.fact_id, "title": title(note.text), "ui_configs": configs, **set_fields}
    return Move("", ((SAVE, card),))

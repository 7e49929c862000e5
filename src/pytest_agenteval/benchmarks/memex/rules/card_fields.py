"""Filling a template's fields from an entry, in the simplest way that fills them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

TITLE_WORDS = 4


@dataclass(frozen=True, slots=True)
class Note:
    """An entry as the user message gave it."""

    fact_id: str
    published: str
    text: str


def title(text: str) -> str:
    """Take the first words; of an entry without a word, say so."""
    return " ".join(text.split()[:TITLE_WORDS]) or "Empty note"


def filled(id: str, note: Note) -> Mapping[str, Any] | None:
    """Fill a template's required fields; None where the entry does not have what they need."""
    return _FILLERS[id](note)


def _link(note: Note) -> Mapping[str, Any] | None:
    found = re.search(r"https?://\S+", note.text)
    return {"url": found[0]} if found else None


def _transaction(note: Note) -> Mapping[str, Any] | None:
    found = re.search(r"[$€£¥]?\s?[0-9]+(?:[.,][0-9]+)*\s?(?:[$€£¥]|[a-z]+)?", note.text, re.IGNORECASE)
    return {"merchant": name(note.text), "amount": found[0].strip()} if found else None


def _routine(note: Note) -> Mapping[str, Any]:
    return {"habit_name": title(note.text), "streak": 1}


def _rating(note: Note) -> Mapping[str, Any] | None:
    score = number(note.text)
    return None if score is None else {"subject": name(note.text), "score": score}


def _quote(note: Note) -> Mapping[str, Any] | None:
    found = re.search(r"[\"“]([^\"“”]+)[\"”]", note.text)
    return {"content": found[1]} if found else None


def _metric(note: Note) -> Mapping[str, Any] | None:
    value = number(note.text)
    return None if value is None else {"items": [{"title": title(note.text), "value": value}]}


def _event(note: Note) -> Mapping[str, Any] | None:
    """Take the day of publication: working out "tomorrow" is more than these rules can do."""
    day = re.search(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", note.published)
    clock = re.search(r"\b([01]?[0-9]|2[0-3]):([0-5][0-9])\b", note.text)
    hour = f"{int(clock[1]):02}:{clock[2]}" if clock else "09:00"
    return {"title": title(note.text), "start_time": f"{day[0]}T{hour}:00"} if day else None


def _task(note: Note) -> Mapping[str, Any]:
    return {"title": title(note.text), "is_completed": False}


def _progress(note: Note) -> Mapping[str, Any] | None:
    found = re.search(r"\b([0-9]+) of ([0-9]+)\b", note.text)
    return {"current": int(found[1]), "total": int(found[2]), "title": title(note.text)} if found else None


def _mood(note: Note) -> Mapping[str, Any]:
    return {"mood_name": title(note.text), "color_hex": "#8888AA"}


def _named(note: Note) -> Mapping[str, Any]:
    return {"name": name(note.text)}


_FILLERS: Mapping[str, Callable[[Note], Mapping[str, Any] | None]] = {
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
    "person": _named,
    "place": _named,
}


def name(text: str) -> str:
    """Take the first words in a row that begin with a capital, unless they only begin a sentence."""
    found = re.search(r"(?<=[\w,;] )[A-Z]\w+(?: [A-Z]\w+)*|\b[A-Z]\w+(?: [A-Z]\w+)+", text)
    return found[0] if found else title(text)


def sentence(text: str) -> str:
    """Take the first sentence."""
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def hashtags(text: str) -> list[str]:
    """Take every word with a hash before it, whether or not there is such a tag."""
    return re.findall(r"#(\w+)", re.sub(r"https?://\S+", "", text))


def number(text: str) -> float | int | None:
    """Take the first number."""
    found = re.search(r"[0-9]+(?:\.[0-9]+)?", text)
    if found is None:
        return None
    return float(found[0]) if "." in found[0] else int(found[0])

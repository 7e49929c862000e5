"""Which templates come to mind on reading an entry: a few English cues each; the earliest cue wins.

The rules are meant to be plausible and no more. Do not tune them to tasks: what they miss is what makes a
first run worth looking at.
"""

from __future__ import annotations

import re

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


def ideas(text: str) -> list[str]:
    """Give the ids of all templates with a cue in the text, the earliest cue first, then by rule."""
    found = ((pattern.search(text), id) for id, pattern in _PATTERNS)
    return [id for _, id in sorted(((cue.start(), id) for cue, id in found if cue), key=lambda hit: hit[0])]

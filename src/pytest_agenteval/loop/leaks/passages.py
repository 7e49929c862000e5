"""How much of a text has to be the same before it is a copy: eight words, or as many signs as say as much.

A word of a script with spaces counts as one. Elsewhere signs are counted: 10 of Han, 16 of Hangul (whose
spaces people set as they like), 24 of kana, or of Thai, Lao, Burmese, Khmer and Tibetan, say about what eight
English words do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import accumulate

from pytest_agenteval.records.record import FrozenValue

LEAST_SIGNS = 10
"""Signs below which eight words (``a b c d e f g h``) are nobody's."""

_WORDS = 8
_PARTS = 60
"""In so many parts a word is counted."""

_UNIT = re.compile(
    "(?P<han>[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
    "|(?P<hangul>[\u1100-\u11ff\uac00-\ud7ff])"
    "|(?P<spelt>[\u0e00-\u109f\u1780-\u17ff\u19e0-\u19ff\u3040-\u31ff])"
    "|(?P<word>[^ \u0e00-\u11ff\u1780-\u17ff\u19e0-\u19ff\u3005-\u3007\u3040-\u31ff\u3400-\u9fff\uac00-\ud7ff"
    "\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
_PARTS_OF = {"word": 60, "han": 48, "hangul": 30, "spelt": 20}


class Passage(FrozenValue, frozen=True):
    """A text that is looked for in pieces: compact, with the places of its words or signs."""

    compact: str
    places: tuple[int, ...]
    parts: tuple[int, ...]

    @property
    def words(self) -> float:
        """How many words it counts as."""
        return sum(self.parts) / _PARTS

    def end_from(self, number: int) -> int | None:
        """Give where a piece ends that begins with the unit of this number; None where too little is left."""
        parts = 0
        for unit in range(number, len(self.places)):
            parts += self.parts[unit]
            end = self.places[unit + 1] if unit + 1 < len(self.places) else len(self.compact)
            if parts >= _WORDS * _PARTS and end - self.places[number] >= LEAST_SIGNS:
                return end
        return None

    @property
    def is_long(self) -> bool:
        """Whether it has a piece of eight words."""
        return self.end_from(0) is not None


def passage(folded: str) -> Passage:
    """Take a folded text apart into words, or signs where there are no spaces between words."""
    if folded.isascii():
        words = folded.split()
        places = tuple(accumulate(map(len, words[:-1]), initial=0)) if words else ()
        return Passage("".join(words), places, (_PARTS,) * len(words))
    places_, parts, place = list[int](), list[int](), 0
    for unit in _UNIT.finditer(folded):
        places_.append(place)
        parts.append(_PARTS_OF[str(unit.lastgroup)])
        place += unit.end() - unit.start()
    return Passage(folded.replace(" ", ""), tuple(places_), tuple(parts))


def pieces(text: Passage, known: Collection[str]) -> Iterator[str]:
    """Give the pieces of eight words whose first signs are ``known`` to stand in what is searched."""
    compact = text.compact
    for number, place in enumerate(text.places):
        if compact[place : place + LEAST_SIGNS] in known and (end := text.end_from(number)):
            yield compact[place:end]

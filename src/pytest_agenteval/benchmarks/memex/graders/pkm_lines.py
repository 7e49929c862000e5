"""How much of a text is still there: its lines, wherever they stand now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher

LIKE = 0.6
"""The share of a line's words that one new line must hold to be the same line, edited."""

HALF = 0.5
"""The same, where the new line stands in the old one's very place."""

MOST_COMPARED = 200
"""Beyond so many lines on either side, a line that is not found is not looked for in an edited form."""

# A script without spaces has no words to count: there, each letter is one.
_WORDS = re.compile(r"[\u3040-\ud7ff]|[^\W\u3040-\ud7ff]+")


@dataclass(frozen=True, slots=True)
class Survival:
    """What became of the lines of one text: how many there were, how many are kept, how many only edited."""

    lines: int
    kept: int
    edited: int = 0
    lost: tuple[str, ...] = ()

    @property
    def loses_words(self) -> bool:
        """Whether a line is gone that held a word: a rule or an empty bullet is no loss."""
        return any(_words(line) for line in self.lost)

    @property
    def share(self) -> float:
        """The share that survives, an edited line counted half; 1 where there was no line to lose."""
        return (self.kept + self.edited / 2) / self.lines if self.lines else 1.0


def counted_lines(texts: Iterable[str | None]) -> Counter[str]:
    """Count the lines of texts; blank ones and white space at a line's end do not matter."""
    lines = (line.rstrip() for text in texts for line in (text or "").splitlines())
    return Counter(line for line in lines if line)


def survival(text: str, there: Counter[str], new: Iterable[str], now: str | None = None) -> Survival:
    """Look for each line of a text among the lines that are there, then for an edited form among new ones.

    A line that stood twice must stand twice; that another text holds the same line does not matter. ``now``
    is what stands in the text's own place: a line of which something new took the place is edited where they
    share half of its words.
    """
    lines = counted_lines([text])
    gone = lines - there
    edited = _edited(gone, new)
    edited |= (gone - edited) & _replaced(text, now or "", gone - edited)
    lost = tuple((gone - edited).elements())
    kept = lines.total() - gone.total()
    return Survival(lines.total(), kept, edited.total(), lost)


def _edited(gone: Counter[str], new: Iterable[str]) -> Counter[str]:
    """Give those of the missing lines whose words stand, for the most part, in one new line."""
    candidates = list(new)
    if max(len(gone), len(candidates)) > MOST_COMPARED:
        return Counter()
    words = [_words(line) for line in candidates]
    return Counter({line: n for line, n in gone.items() if any(_is_like(_words(line), now) for now in words)})


def _replaced(text: str, now: str, gone: Counter[str]) -> Counter[str]:
    """Give those of the missing lines in whose place stands something that shares half of their words."""
    was, new = ([line.rstrip() for line in each.splitlines() if line.strip()] for each in (text, now))
    if not gone or max(len(was), len(new)) > MOST_COMPARED:
        return Counter()
    kept: Counter[str] = Counter()
    for kind, start, end, first, last in SequenceMatcher(None, was, new, autojunk=False).get_opcodes():
        if kind == "replace":
            words = _words(" ".join(new[first:last]))
            kept += Counter(line for line in was[start:end] if _is_like(_words(line), words, HALF))
    return kept


def _is_like(was: Counter[str], now: Counter[str], share: float = LIKE) -> bool:
    return bool(was) and (was & now).total() >= share * was.total()


def _words(line: str) -> Counter[str]:
    return Counter(_WORDS.findall(line.casefold()))

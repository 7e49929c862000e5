"""How much of a text is still there: its lines, wherever they stand now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

LIKE = 0.6
"""The share of a line's words that one new line must hold to be the same line, edited."""

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
    def share(self) -> float:
        """The share that survives, an edited line counted half; 1 where there was no line to lose."""
        return (self.kept + self.edited / 2) / self.lines if self.lines else 1.0


def counted_lines(texts: Iterable[str | None]) -> Counter[str]:
    """Count the lines of texts; blank ones and white space at a line's end do not matter."""
    lines = (line.rstrip() for text in texts for line in (text or "").splitlines())
    return Counter(line for line in lines if line)


def survival(text: str, there: Counter[str], new: Iterable[str]) -> Survival:
    """Look for each line of a text among the lines that are there, then for an edited form among new ones.

    A line that stood twice must stand twice; that another text holds the same line does not matter.
    """
    lines = counted_lines([text])
    gone = lines - there
    edited = _edited(gone, new)
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


def _is_like(was: Counter[str], now: Counter[str]) -> bool:
    return bool(was) and (was & now).total() >= LIKE * was.total()


def _words(line: str) -> Counter[str]:
    return Counter(_WORDS.findall(line.casefold()))

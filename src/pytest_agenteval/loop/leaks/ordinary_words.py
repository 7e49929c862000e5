"""Which expected values say enough to be a leak by themselves, and which are words that anybody writes.

An answer has to hold "phone" and "sewing": a prompt that says "phone" leaks nothing. One that says both near
each other does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

from pytest_agenteval.loop.leaks.folded_text import compact
from pytest_agenteval.loop.leaks.prompt_index import MOST_ENDING
from pytest_agenteval.loop.leaks.short_numbers import is_round, is_short_number
from pytest_agenteval.records.record import FrozenValue

ENOUGH = 12
"""Letters from which on two words, or signs that say as much, are taken for no ordinary ones.

One word may be as long in Russian or Finnish, and say nothing.
"""

ENOUGH_WITH_DIGITS = 9
"""Letters, with each digit for three, from which on a number or a code is nobody else's: not `6 more`."""

ENOUGH_ALONE = 7
"""Letters of a word that an answer has to hold, and no other task speaks of."""

ENOUGH_WORDS, ENOUGH_OF_WORDS = 3, 10
"""Three words in a row, with so many letters, are no chance."""

_CALENDAR = re.compile(
    "(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august"
    "|(?:septem|octo|novem|decem)ber"
)
"""Names that everybody has to write: what English gives a capital that is nobody's own."""

_CAPITALS_OF_NOUNS = 0.2
"""The share of words with a capital within sentences from which on it makes no name, as in German."""

_WORTH = (
    (re.compile("[\u3005-\u3007\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"), 1.5),
    (re.compile("[\u0590-\u08ff\u3040-\u30ff]"), 0.5),
    (re.compile("[\u0900-\u109f\u1780-\u17ff]"), 0.35),
)
"""How much more than a Latin letter a sign says: of Han and Hangul, of kana and of scripts that leave vowels
out, of India and its neighbours."""

_WORD = re.compile(r"\w+")
_BEGINNING = re.compile(r"""(?:^|[.!?:;…\n\r\-*#>•"'“”‘’(\[{/|])\s*$""")


def says_enough(value: str, words: int, alone: bool) -> bool:
    """Whether a compact text of so many words is a leak wherever it stands, names apart.

    Two words are where an answer needs these very words, and has no others to choose from.
    """
    letters = letters_of(value)
    digits = sum(char.isdigit() for char in value)
    if (digits > 1 or (digits and alone)) and letters + 2 * digits >= ENOUGH_WITH_DIGITS:
        return not is_short_number(value) and not is_round(value)
    if words >= ENOUGH_WORDS and letters >= ENOUGH_OF_WORDS:
        return True
    return letters >= ENOUGH and (letters > len(value) or (words > 1 and alone))


def letters_of(value: str) -> float:
    """Count how many Latin letters say as much as a compact text."""
    return len(value) + sum(more * len(signs.findall(value)) for signs, more in _WORTH)


class Prose(FrozenValue, frozen=True):
    """A text, and its words with their compact forms."""

    text: str
    words: tuple[tuple[re.Match[str], str], ...]


def prose(text: str) -> Prose:
    """Take a text apart."""
    return Prose(text, tuple((match, compact(match[0])) for match in _WORD.finditer(text)))


def is_day_or_month(value: str) -> bool:
    """Whether a compact text is one of those names that every prompt may have to write."""
    return _CALENDAR.fullmatch(value) is not None


def capitals_tell_names(texts: Iterable[Prose]) -> bool:
    """Whether a capital within a sentence is something special in these texts, or every noun has one."""
    count = capitals = 0
    for text in texts:
        for (before, _), (word, _) in pairwise(text.words):
            if word[0][0].isalpha() and text.text[before.end() : word.start()] == " ":
                count += 1
                capitals += word[0][0].isupper()
    return capitals <= _CAPITALS_OF_NOUNS * count


def is_name(value: str, texts: Iterable[Prose]) -> bool:
    """Whether these texts write all words of a value with capitals, and not just where a sentence begins."""
    if is_day_or_month(value):
        return False
    within = False
    for text in texts:
        for words in _mentions(value, text.words):
            if not all(word[0][0].isupper() for word in words):
                return False
            before = text.text[max(0, words[0].start() - 8) : words[0].start()]
            within = within or len(words) > 1 or not _BEGINNING.search(before)
    return within


def _mentions(value: str, words: Sequence[tuple[re.Match[str], str]]) -> Iterator[list[re.Match[str]]]:
    """Give the words that spell a value together, the last of them perhaps with an ending of its own."""
    for number, (_, first) in enumerate(words):
        if not first or not (value.startswith(first) or first.startswith(value)):
            continue
        spelt, mention = "", list[re.Match[str]]()
        for match, word in words[number:]:
            spelt += word
            mention.append(match)
            if len(spelt) >= len(value) or not value.startswith(spelt):
                break
        if spelt.startswith(value) and len(spelt) - len(value) <= MOST_ENDING:
            yield mention


class AllTasksTexts:
    """The compact texts of all tasks, one behind the other: to look through one long text is quick."""

    def __init__(self, texts: Iterable[str]) -> None:
        every = list(texts)
        self._whole = "\n".join(every)
        self._starts = list(accumulate((len(text) + 1 for text in every[:-1]), initial=0))

    def is_shared(self, value: str, tasks: int) -> bool:
        """Whether so many tasks, or more, hold a compact text."""
        place, count = self._whole.find(value), 0
        while place >= 0:
            count += 1
            behind = bisect_right(self._starts, place)
            if count == tasks or behind == len(self._starts):
                break
            place = self._whole.find(value, self._starts[behind])
        return count == tasks

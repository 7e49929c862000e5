"""What models were told on both sides: which part of it is another, and in which line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from pytest_agenteval.compare.sides import Side
from pytest_agenteval.records.prompts import FIRST_MESSAGE, SYSTEM_PROMPT, TOOL_LIST
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.store.journal_entry import JournalEntry

MOST_READ = 5
"""Trials of a side whose texts are read, to see which words are another in each."""
MOST_WORDS = 2_000
"""Words between the common beginning and end of two texts, up to which common ones are looked for in them."""
VARYING = "…"

Trials = tuple[tuple[JournalEntry, ...], tuple[JournalEntry, ...]]
"""A task's trials of both sides."""


class SentDifference(FrozenValue, frozen=True):
    """A part of what models are told that is another on both sides.

    ``old`` and ``new`` are digests of one task's, ``old_line`` and ``new_line`` the first line that is not
    the same, where texts are known; ``…`` in it stands for words that are others in each trial. ``varies``
    says that nothing but such words differs: a date, an id.
    """

    part: str
    old: str
    new: str
    old_line: str = ""
    new_line: str = ""
    varies: bool = False


def sent_differences(tasks: Sequence[Trials], old: Side, new: Side) -> Iterator[SentDifference]:
    """Give the parts that are not the same; what trials of earlier versions sent is not known."""
    for part in (SYSTEM_PROMPT, FIRST_MESSAGE, TOOL_LIST):
        differing = [
            both
            for both in tasks
            if all(map(_have_digests, both)) and _digests(both[0], part) != _digests(both[1], part)
        ]
        if differing:
            yield _difference(part, differing, old, new)


def _have_digests(entries: Sequence[JournalEntry]) -> bool:
    return any(entry.digests.sent for entry in entries)


def _digests(entries: Sequence[JournalEntry], part: str) -> set[str]:
    return {entry.digests.sent.get(part, "") for entry in entries if entry.digests.sent}


def _difference(part: str, tasks: Sequence[Trials], old: Side, new: Side) -> SentDifference:
    before = [entry for both in tasks for entry in both[0] if entry.digests.sent]
    after = [entry for both in tasks for entry in both[1] if entry.digests.sent]
    old_digest, new_digest = (entries[0].digests.sent.get(part, "") for entries in (before, after))
    varies = _is_another_each_time(before, part) or _is_another_each_time(after, part)
    most = MOST_READ if varies else 1
    old_texts, new_texts = _texts(before[:most], part, old), _texts(after[:most], part, new)
    if (old_digest and not old_texts) or (new_digest and not new_texts):  # a baseline's file holds none
        return SentDifference(part, old_digest, new_digest, varies=varies)
    for old_line, new_line in zip_longest(_lines(old_texts), _lines(new_texts), fillvalue=""):
        if old_line != new_line and not (_stands_for(old_line, new_line) or _stands_for(new_line, old_line)):
            return SentDifference(part, old_digest, new_digest, old_line, new_line)
    return SentDifference(part, old_digest, new_digest, varies=True)


def _texts(entries: Sequence[JournalEntry], part: str, side: Side) -> list[str]:
    return list(filter(None, (side.sent_text(entry, part) for entry in entries)))


def _is_another_each_time(entries: Sequence[JournalEntry], part: str) -> bool:
    digests = [entry.digests.sent.get(part, "") for entry in entries]
    return len(digests) > 1 and len(set(digests)) == len(digests)


def _lines(texts: Sequence[str]) -> list[str]:
    """Give the lines of the first text, with a mark in the place of words that some other has not."""
    if not texts:
        return []
    words = re.findall(r"\S+\s*", texts[0])
    common = [True] * len(words)
    for other in texts[1:]:
        same = _same_words(words, re.findall(r"\S+\s*", other))
        common = [was and is_same for was, is_same in zip(common, same, strict=True)]
    shown: list[str] = []
    for word, is_common in zip(words, common, strict=True):
        blank = word[len(word.rstrip()) :]
        if is_common:
            shown.append(word)
        elif shown and shown[-1].rstrip() == VARYING:  # one mark for words in a row
            shown[-1] = VARYING + blank
        else:
            shown.append(VARYING + blank)
    return [" ".join(line.split()) for line in "".join(shown).splitlines() if line.strip()]


def _same_words(words: Sequence[str], others: Sequence[str]) -> list[bool]:
    """Say of each word whether it stands in the same place of the other text."""
    shortest = min(len(words), len(others))
    start = next((at for at in range(shortest) if words[at] != others[at]), shortest)
    rest = shortest - start
    end = next((at for at in range(rest) if words[-1 - at] != others[-1 - at]), rest)
    middle, other_middle = words[start : len(words) - end], others[start : len(others) - end]
    same = [False] * len(middle)
    if max(len(middle), len(other_middle)) <= MOST_WORDS:
        for at, _, size in SequenceMatcher(None, middle, other_middle, autojunk=False).get_matching_blocks():
            same[at : at + size] = [True] * size
    return [True] * start + same + [True] * end


def _stands_for(line: str, other: str) -> bool:
    """Whether a line with marks may be the other one."""
    first, *rest = line.split(VARYING)
    if not rest or not other.startswith(first):
        return False
    *middle, last = rest
    at = len(first)
    for part in middle:  # where it stands first: a pattern would try all places, for ever
        begin = other.find(part, at)
        if begin < 0:
            return False
        at = begin + len(part)
    return other.endswith(last) and at <= len(other) - len(last)

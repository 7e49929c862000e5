"""Which expected values say enough to be a leak by themselves, and which are words that anybody writes.

An answer has to hold "phone" and "sewing": a prompt that says "phone" leaks nothing. One that says both near
each other does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pytest_agenteval.loop.leaks.folded_text import compact

ENOUGH_SIGNS = 12
"""Letters from which on a word, or two, is taken for no ordinary one."""

ENOUGH_WORDS, ENOUGH_SIGNS_OF_WORDS = 3, 10
"""Three words in a row, with so many letters, are no chance."""

_DENSE = re.compile("[\u3400-\u9fff\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Han and Hangul, where five signs are several words."""

_WORD = re.compile(r"\w+")
_BEGINNING = re.compile(r"""(?:^|[.!?:;…\n\r\-*#>•"'“”‘’(\[{/|])\s*$""")


def says_enough(value: str, words: int) -> bool:
    """Whether a compact text of so many words is a leak wherever it stands, names apart."""
    if any(char.isdigit() for char in value) or len(value) >= ENOUGH_SIGNS:
        return True
    if words >= ENOUGH_WORDS and len(value) >= ENOUGH_SIGNS_OF_WORDS:
        return True
    return len(_DENSE.findall(value)) * 2 > len(value)


def is_name(value: str, texts: Iterable[str]) -> bool:
    """Whether these texts write a word with a capital only, and not just where a sentence begins."""
    within = False
    for text in texts:
        for match in _WORD.finditer(text):
            if match[0][0].casefold() != value[0] and compact(match[0][:1]) != value[0]:
                continue
            if compact(match[0]) != value:
                continue
            if not match[0][0].isupper():
                return False
            within = within or not _BEGINNING.search(text[max(0, match.start() - 8) : match.start()])
    return within

"""How many tokens a text may be, without a tokenizer: rather too many than too few."""

from __future__ import annotations

import math
import re
from itertools import accumulate

ASCII_CHARACTERS = 4
"""Characters of a token where all is ASCII: what offline models count too."""

_ALPHABETS = re.compile("[\x80-\u0dff\u10a0-\u10ff\u1e00-\u2e7f]")
_WIDE = re.compile("[\u0e00-\u109f\u1100-\u1dff\u2e80-\uffff]")
_RARE = re.compile("[\U00010000-\U0010ffff]")

WEIGHTS = ((_ALPHABETS, 0.5), (_WIDE, 1.0), (_RARE, 2.0))
"""Tokens of a character that is not ASCII.

Half a token for a letter of other alphabets (accents, Greek, Cyrillic, Arabic, Devanagari) and signs, one for
a character of Chinese, Japanese, Korean, Thai or Ethiopic, two beyond, where emoji are. Tokenizers of today
need fewer for all of them.
"""


def estimate_tokens(text: str) -> int:
    """Give about how many tokens a text is: a quarter for each ASCII character, more for others."""
    return math.ceil(_tokens(text))


def _tokens(text: str) -> float:
    if text.isascii():
        return len(text) / ASCII_CHARACTERS
    others = [(len(pattern.findall(text)), weight) for pattern, weight in WEIGHTS]
    plain = len(text) - sum(number for number, _ in others)
    return plain / ASCII_CHARACTERS + sum(number * weight for number, weight in others)


def cut_to_tokens(text: str, most: float) -> str:
    """Give a text's beginning of at most so many tokens, with ``…`` where it was cut."""
    if _tokens(text) <= most:
        return text
    ends = accumulate(map(_tokens, text))
    fits = sum(1 for end in ends if end <= most - 0.5)
    return text[:fits] + "…" if fits else ""

"""English words for numbers, and their values."""

from __future__ import annotations

import re

_BELOW_20 = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
"""
_FROM_20 = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = _BELOW_20.split()
_TENS = {word: 10 * number for number, word in enumerate(_FROM_20.split(), 2)}
NUMBER_WORDS = {word: number for number, word in enumerate(_SMALL)} | _TENS
"""The words of one number each."""

_SAID = re.compile(
    rf"(?<![^\W\d_])(?:(?P<tens>{'|'.join(_TENS)})(?:[- ](?P<units>{'|'.join(_SMALL[1:10])}))?"
    rf"|(?P<small>{'|'.join(sorted(_SMALL[2:], key=len, reverse=True))}))(?![^\W\d_])"
)

_MINUS = re.compile(r"(?:\bminus |영하 ?|零下 ?|マイナス ?)(?=\d)")


def in_digits(folded: str) -> str:
    """Write the number words of a folded text in digits: twenty-six as 26; one and zero stay words."""
    return _MINUS.sub("-", _SAID.sub(_digits, folded))


def _digits(found: re.Match[str]) -> str:
    small = found["small"] or found["units"]
    return str(_TENS.get(found["tens"], 0) + (NUMBER_WORDS[small] if small else 0))

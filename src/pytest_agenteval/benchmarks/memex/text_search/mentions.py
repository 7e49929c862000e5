"""Whether a text says something that an author wrote down: a word, a number, a date, a time, an address.

What is looked for is looked for whole. ``6.5`` is not in 16.5, ``$349`` not in $13,499, ``tea`` not in steam;
a date is the same day in whatever spelling, a day off it is another; an address is one on the same host, its
path compared step by step.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

from pytest_agenteval import fold_text
from pytest_agenteval.benchmarks.memex.text_search.dates import (
    find_days,
    find_months,
    find_times,
    parse_days,
    parse_month,
    parse_times,
    without_days_and_times,
)
from pytest_agenteval.benchmarks.memex.text_search.tokens import Token, find_run, tokens
from pytest_agenteval.records.record import FrozenValue

_ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*://)?(?:[^\s/@?#]*@)?(?P<host>[^\W_](?:[\w-]*\.)+[^\W\d_]{2,})\.?(?::\d+)?"
    r"(?P<path>/[^\s?#]*)?(?:\?(?P<query>[^\s#]*))?(?:#(?P<part>\S*))?"
)
_ENDS = """
    com org net edu gov info io dev app ai co me tv uk de fr es it nl eu ch at pl se no dk kr jp cn
    tw in br us ca au ru
"""
_USUAL_ENDS = frozenset(_ENDS.split())
_CUTS = re.compile(r"[\s<>\"`|\\^{}「」『』【】《》，。；！？、]+")
_CUTS_TOO = re.compile(r"[()\[\]（）]+")
_AT_EDGES = ".,;:!?'*_~()[]…"


class Address(FrozenValue, frozen=True):
    """Where something stands: a host, a path, and what was asked there."""

    host: str
    path: str = ""
    query: frozenset[str] = frozenset()
    part: str = ""

    def holds(self, other: Address) -> bool:
        """Whether another address is this one, or lies below it; more asked there does not matter."""
        below = not self.path or other.path == self.path or other.path.startswith(f"{self.path}/")
        return (
            self.host == other.host and below and self.query <= other.query and self.part in ("", other.part)
        )


def parse_address(text: str) -> Address | None:
    """Read a folded text that is an address and nothing else; a bare name needs an ending that is usual."""
    match = _ADDRESS.fullmatch(text)
    if match is None or "@" in text.partition("/")[0]:
        return None
    sure = match["scheme"] or match["path"] or match["host"].startswith("www.")
    return _address(match) if sure or match["host"].rpartition(".")[2] in _USUAL_ENDS else None


def find_addresses(text: str, *, ascii_only: bool) -> Iterator[Address]:
    """Give the addresses in a folded text; ``ascii_only`` ends each at the first letter that is not."""
    pieces = _CUTS.split(text)
    inner = [part for piece in pieces for part in _CUTS_TOO.split(piece)]
    for piece in dict.fromkeys([*pieces, *inner]):
        match = _ADDRESS.fullmatch((_ascii(piece) if ascii_only else piece).strip(_AT_EDGES))
        if match is not None:
            yield _address(match)


def _ascii(piece: str) -> str:
    """Give the part of ASCII letters that begins with a letter or a digit."""
    match = re.search(r"[a-z0-9][\x21-\x7e]*", piece)
    return match[0] if match else ""


def _address(match: re.Match[str]) -> Address:
    return Address(
        match["host"].removeprefix("www."),
        unquote(match["path"] or "").strip("/"),
        frozenset((match["query"] or "").split("&")) - {""},
        match["part"] or "",
    )


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


def words_to_digits(folded: str) -> str:
    """Write the number words of a folded text in digits: twenty-six as 26; one and zero stay words."""
    return _MINUS.sub("-", _SAID.sub(_digits, folded))


def _digits(match: re.Match[str]) -> str:
    small = match["small"] or match["units"]
    return str(_TENS.get(match["tens"], 0) + (NUMBER_WORDS[small] if small else 0))


_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"))
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u066b": ".", "\u066c": ","})
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+")
_NOON = 12
_PARTS = {sign: f"{unicodedata.numeric(sign):g}"[1:] for sign in "½¼¾⅕⅖⅗⅘⅛⅜⅝⅞"}
_FRACTION = re.compile(rf"(?:(?<!\d)(\d{{1,9}}) ?)?([{''.join(_PARTS)}])")
_WIDE_COMMA = re.compile(r"(?<!\d)，|，(?!\d{3}(?!\d))")
"""A full-width comma that is not within a number: folded, it would join the numbers beside it."""
_POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u065f\u0670]|(?<=i)\u0307"
)
"""Vowel points of Hebrew and Arabic, which writers mostly leave out, and the dot of a capital Turkish i."""
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")


@lru_cache(maxsize=256)
def normalize_mention(text: str) -> str:
    """Write a text so that case, width, kinds of dash and of apostrophe, and lengths of space are gone.

    So are vowel points; ½ is written .5.
    """
    text = _FRACTION.sub(lambda match: (match[1] or "0") + _PARTS[match[2]], _WIDE_COMMA.sub(", ", text))
    return _POINTS.sub("", fold_text(text).translate(_DASHES).translate(_QUOTES))


def mentions(text: str, needle: str) -> bool:
    """Whether a text says what the needle says.

    A needle that is a date is looked for among the dates, one that is a time among the times, one that is an
    address among the addresses; anything else as a run of whole words and numbers. Signs between words do
    not matter, nor does a hyphen within one, a plural's s, nor what Korean, Arabic and Hebrew write onto a
    word. A number that is given with a sign is not said by one with the other. English number words count as
    numbers, and a month is also said short, or by a date in it. A whole number up to 24 is also said by a
    time at that hour, morning or evening. A needle without word or number is looked for as it is.
    """
    target, folded = words_to_digits(normalize_mention(needle)), words_to_digits(normalize_mention(text))
    target = target.replace(" ", "") if _SPACED.fullmatch(target) else target
    # The narrowest reading first: an address holds words, and a date is also a run of numbers.
    address = parse_address(target)
    if address is not None:
        return any(address.holds(other) for other in find_addresses(folded, ascii_only=target.isascii()))
    days = parse_days(target)
    if days:
        return any(day.can_equal(other) for day in days for other in find_days(folded))
    times = parse_times(target)
    if times:
        return bool(times & find_times(folded, dotted=True))
    if parse_month(target) in find_months(folded):
        return True
    words = tokens(target)
    if not words:
        return target in folded
    if len(words) == 1 and words[0].readings:
        return find_run(words, tokens(without_days_and_times(folded))) or _is_hour(words[0], folded)
    return find_run(words, tokens(folded)) or _without_hyphens(target, folded)


def _without_hyphens(target: str, folded: str) -> bool:
    """Whether the words are said where a hyphen within a word is none: rule-book says rulebook."""
    without = _HYPHEN.sub("", target), _HYPHEN.sub("", folded)
    return without != (target, folded) and find_run(*map(tokens, without))


def _is_hour(number: Token, folded: str) -> bool:
    """Whether a number is the hour of a time in the text, on the hour."""
    hours = {int(value) for value in number.readings if value == int(value) and value <= 2 * _NOON}
    minutes = {hour % (2 * _NOON) * 60 for hour in hours}
    minutes |= {(hour + _NOON) % (2 * _NOON) * 60 for hour in hours if 0 < hour <= _NOON}
    return bool(minutes & find_times(folded))

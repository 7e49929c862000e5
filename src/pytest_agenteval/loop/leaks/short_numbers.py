"""Numbers: short ones say little unless they are prices or times, and round ones nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle

from pytest_agenteval.loop.leaks.folded_text import compact

_LEAST, _MOST = 3, 4
_LEAST_WRITTEN = 5
"""Characters, with what separates its digits, that a number of four digits has to be written with."""

_MOST_OF_ONE = 7
"""Digits beyond which numbers are told by more than their digits: those of telephones have brackets."""

_TWO_NUMBERS = re.compile(r"\d[^\w*`\u00ad\u200b-\u200f\u2060]{2,}\d")
_NUMBER = re.compile(
    r"((?<![A-Za-zА-Яа-яΑ-Ωα-ω_\d])\d+(?:[.,:'’·\u066b\u066c]\d+|[ \u00a0\u202f]\d{3}(?!\d))*)"
)
_YEAR = re.compile("(?:19|20)..")


def is_short_number(value: str) -> bool:
    """Whether a compact text is a number that is short, and not a round one."""
    return value.isdigit() and _LEAST <= len(value) <= _MOST and not is_round(value)


def is_round(value: str) -> bool:
    """Whether a compact text is a number that anybody may choose for a limit: 10,000, or 0.001."""
    return value.isdigit() and len(value.strip("0")) <= 1


def is_one_number(value: str, written: str) -> bool:
    """Whether the few digits of a number are written as one: `48 091`, and not in two cells of a table."""
    return len(value) > _MOST_OF_ONE or _TWO_NUMBERS.search(written) is None


def is_price(value: str, text: str) -> bool:
    """Whether a text writes four digits as a price, a time or a measure: 2,386 and 18:45, not 10:30."""
    written = text.strip()
    is_usual = value.endswith("00") or (":" in written and value.endswith("30"))
    return is_short_number(value) and len(value) == _MOST and len(written) >= _LEAST_WRITTEN and not is_usual


def may_be_year(value: str, written: str) -> bool:
    """Whether a number that is written so may be a year: 2026, but not 20:26."""
    return written.isdigit() and _YEAR.fullmatch(value) is not None


def short_numbers(line: str, place: int) -> Iterator[tuple[str, int, int]]:
    """Give the short numbers of a line as they are written, from where to where in a compact text.

    The line begins at this place in it.
    """
    parts = _NUMBER.split(line)
    if len(parts) == 1:
        return
    for is_number, part in zip(cycle((False, True)), parts, strict=False):
        value = compact(part)
        if is_number and is_short_number(value):
            yield part, place, place + len(value)
        place += len(value)

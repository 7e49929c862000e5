"""When a value that an agent passed on is one that a tool gave, in the same spelling or in another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from html import unescape
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.param_matchers import folded

Atom: TypeAlias = Decimal | str
Likeness: TypeAlias = tuple[int, int]

UNLIKE: Likeness = (0, 0)
LEAST_PART = 2
LEAST_DIGITS = 3
"""A coordinate with fewer digits behind its point is another place."""

_NUMBER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_BETWEEN = re.compile(r"[,;|:]")
_TAG = re.compile(r"</?b>")
"""Search providers mark what was found."""


def likeness(value: Any, given: Iterable[Any], *, phrases: bool) -> Likeness:
    """Rank how well a value, or a part of a joined one, fits one that was given.

    Equal beats everything. A number may be rounded or cut, and with ``phrases`` a text may hold what was
    given, or be held by it: the more of it the better. Case, width and spaces make no difference.
    """
    atoms = {atom for atom in map(_atom, given) if atom is not None}
    parts = list(_parts(value))
    if not atoms.isdisjoint(parts):
        return 2, 0
    ranks = [(1, 0) for part in parts for atom in atoms if _rounded(part, atom)]
    if phrases and isinstance(value, str):
        text = folded(value)
        known = [atom for atom in atoms if isinstance(atom, str) and len(atom) >= LEAST_PART]
        ranks += [(1, len(atom)) for atom in known if atom in text]
        ranks += [(1, len(text)) for atom in known if len(text) >= LEAST_PART and text in atom]
    return max(ranks, default=UNLIKE)


def leaves(value: Any) -> Iterator[Any]:
    """Give all that is neither map nor list."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        yield value
        return
    for inner in value:
        yield from leaves(inner)


def _parts(value: Any) -> Iterator[Atom]:
    pieces = [value, *_BETWEEN.split(value)] if isinstance(value, str) else [value]
    yield from (atom for atom in map(_atom, pieces) if atom is not None)


def _atom(value: Any) -> Atom | None:
    """Give a number, also one written as text, or a folded text; truth values and nothing say too little."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _number(value)
    text = folded(unescape(_TAG.sub("", str(value))))
    return _number(text) if _NUMBER.fullmatch(text) else text or None


def _number(written: Any) -> Decimal | None:
    """Read a number; None for what is not finite, and for what has more digits than anybody writes."""
    try:
        number = Decimal(str(written))
        return number.normalize() if number.is_finite() else None
    except (ValueError, ArithmeticError):
        return None


def _rounded(one: Atom, other: Atom) -> bool:
    """Whether two numbers are one number, written with more and with fewer digits behind the point."""
    if not isinstance(one, Decimal) or not isinstance(other, Decimal):
        return False
    short, long = sorted((one, other), key=_digits)
    if _digits(short) < LEAST_DIGITS:
        return False
    apart, last = abs(long - short), Decimal(1).scaleb(-_digits(short))
    cut = abs(short) <= abs(long) and apart < last and _digits(short) > LEAST_DIGITS
    return cut or apart <= last / 2


def _digits(number: Decimal) -> int:
    """Count the digits behind the point."""
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0

"""JSON as the standard has it: no NaN, no number that no number can hold, no key twice in one map."""

from __future__ import annotations

import json
from math import isinf
from typing import Any, NoReturn


class _NotJson(ValueError):
    """A number that JSON does not know, or a key that stands twice."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise _NotJson(f"the key {again!r} a second time")
    return mapping


def _constant(text: str) -> NoReturn:
    raise _NotJson(f"{text}, which JSON does not know")


def _float(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise _NotJson(f"{text}, which no number can hold")
    return number


STRICT_JSON = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_constant, parse_float=_float)

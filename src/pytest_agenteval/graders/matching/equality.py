"""When two JSON values are the same, and when one is part of the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def same(expected: Any, found: Any) -> bool:
    """Whether two JSON values are equal: 1 is 1.0, but true is not 1, and a list is a list in its order."""
    if isinstance(expected, Mapping):
        return (
            isinstance(found, Mapping)
            and expected.keys() == found.keys()
            and all(same(value, found[key]) for key, value in expected.items())
        )
    if _is_list(expected):
        return (
            _is_list(found)
            and len(expected) == len(found)
            and all(same(one, other) for one, other in zip(expected, found, strict=True))
        )
    return _same_scalar(expected, found)


def part_of(expected: Any, found: Any) -> bool:
    """Whether a value is contained in another.

    Each key of a map has to be there with a part of its value, each item of a list has to be part of some
    item, in any order and however often; everything else has to be equal.
    """
    if isinstance(expected, Mapping):
        return isinstance(found, Mapping) and all(
            key in found and part_of(value, found[key]) for key, value in expected.items()
        )
    if _is_list(expected):
        return _is_list(found) and all(any(part_of(one, other) for other in found) for one in expected)
    return _same_scalar(expected, found)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _same_scalar(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    return bool(expected == found)

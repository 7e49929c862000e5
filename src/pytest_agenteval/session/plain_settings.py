"""Settings that a class plainly takes: seen without pydantic, which a first run has else no use for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import convert

_VALUES = frozenset({Any, NoneType, bool, int, float, str, list, tuple, dict})
_HOLDERS = frozenset({Union, UnionType, list, tuple, dict, Mapping, Sequence})


def plainly_takes(factory: type, settings: Mapping[str, Any]) -> bool:
    """Whether each value is what its hint says and the class can be made of them.

    False means that nobody knows yet: a hint says more than msgspec understands as pydantic does, or
    something is wrong, which pydantic explains.
    """
    try:
        hints = _plain_hints(factory)
        factory(**{name: convert(value, hints[name]) for name, value in settings.items()})
    except Exception:  # whatever it is, it is told by whoever looks closer
        return False
    return True


@cache
def _plain_hints(factory: type) -> dict[str, Any]:
    hints = get_type_hints(factory, include_extras=True)
    return {name: hint for name, hint in hints.items() if _is_plain(hint)}


def _is_plain(hint: Any) -> bool:
    """Whether msgspec takes for this hint nothing that pydantic would not: what Annotated adds is unknown."""
    origin = get_origin(hint)
    if origin in _HOLDERS:
        return all(arg is ... or _is_plain(arg) for arg in get_args(hint))
    return origin is Literal or hint in _VALUES

"""Settings that a class plainly takes: seen without pydantic, which a first run has else no use for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import convert

_VALUES = frozenset({Any, NoneType, bool, int, float, str, list, tuple, dict})
_HOLDERS = frozenset({Union, UnionType, list, tuple, dict, Mapping, Sequence})


def plainly_takes(factory: type, settings: Mapping[str, Any]) -> bool:
    """Whether each value is what its hint says and the class can be made of them.

    False means that nobody knows yet: a hint or the class says more than msgspec understands as pydantic
    does, or something is wrong, which pydantic explains.
    """
    if _speaks_to_pydantic(factory):
        return False
    try:
        hints = _plain_hints(factory)
        factory(**{name: convert(value, hints[name]) for name, value in settings.items()})
    except Exception:  # whatever it is, it is told by whoever looks closer
        return False
    return True


@cache
def _plain_hints(factory: type) -> dict[str, Any]:
    hints = get_type_hints(factory, include_extras=True)
    return {name: hint for name, hint in hints.items() if is_plain(hint)}


@cache
def _speaks_to_pydantic(factory: type) -> bool:
    """Whether a class says beside its hints what pydantic heeds: validators, a configuration, ``Field``."""
    settings = fields(factory) if is_dataclass(factory) else ()
    if any(setting.metadata or _is_of_pydantic(setting.default) for setting in settings):
        return True
    said = (entry for kind in factory.__mro__ for entry in vars(kind).items())
    return any("_pydantic_" in name or _is_of_pydantic(value) for name, value in said)


def _is_of_pydantic(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pydantic"


def is_plain(hint: Any) -> bool:
    """Whether msgspec takes for this hint nothing that pydantic would not: what Annotated adds is unknown."""
    origin = get_origin(hint)
    if origin in _HOLDERS:
        return all(arg is ... or is_plain(arg) for arg in get_args(hint))
    return origin is Literal or hint in _VALUES

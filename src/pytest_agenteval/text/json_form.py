"""The JSON form of any value: what a run's files hold of it, and a record that is sent as JSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite, isnan
from numbers import Integral, Rational, Real
from pathlib import PurePath
from typing import Any

import msgspec

from pytest_agenteval.text.canonical import compact

_LISTS = (list, tuple, deque)


class _HoldsItself(ValueError):
    """A value was met within itself."""

    def __init__(self, value: object) -> None:
        super().__init__("it holds itself")
        self.identity = id(value)


def jsonable(value: Any) -> Any:
    """Turn a value into what JSON knows: maps with texts as keys, lists, texts, finite numbers.

    Records, dataclasses and models become maps, sets are sorted, dates and bytes are texts, infinity is its
    name; anything else is its ``repr``, as is an object that holds itself.
    """
    return _form(value, ())


def stand_in(value: Any) -> Any:
    """Give what is written for a value that msgspec does not know: what it holds, or else its ``repr``."""
    if value is None or isinstance(value, bool):  # as a key, which has to be a text
        return compact(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, deque):
        return list(value)
    if isinstance(value, PurePath | Rational) and not isinstance(value, Integral):
        return str(value)
    if isinstance(value, Real):  # numpy's numbers are numbers
        return int(value) if isinstance(value, Integral) else float(value)
    if hasattr(type(value), "__pydantic_serializer__"):  # a model; pydantic need not be there
        return value.model_dump()
    return repr(value)


def float_name(number: float) -> str:
    """Name what is no number as a run's files do."""
    return "NaN" if isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _form(value: Any, around: tuple[int, ...]) -> Any:
    """Give the form of a value that lies within others, whose identities are known."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if isinstance(value, int) or isfinite(value) else float_name(value)
    if isinstance(value, Mapping):
        return {_key(key): _form(inner, around) for key, inner in value.items()}
    if isinstance(value, _LISTS):
        return [_form(inner, around) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted([_form(inner, around) for inner in value], key=repr)
    return _of_object(value, around)


def _of_object(value: Any, around: tuple[int, ...]) -> Any:
    if id(value) in around:
        raise _HoldsItself(value)
    within = (*around, id(value))
    try:
        if (names := _field_names(value)) is not None:
            # One that was declared and never set is left out, as msgspec does.
            return {name: _form(getattr(value, name), within) for name in names if hasattr(value, name)}
        return _form(msgspec.to_builtins(value, enc_hook=stand_in), within)
    except _HoldsItself as again:
        if again.identity != id(value):
            raise
    except (TypeError, ValueError, RecursionError):  # nobody can say what it holds
        pass
    return repr(value)


def _key(key: Any) -> str:
    """Give a key as a text, as encoders of JSON do; the ``repr`` of what they do not know."""
    form = key if isinstance(key, str) else _form(key, ())
    if isinstance(form, str):
        return form
    return compact(form) if form is None or isinstance(form, bool | int | float) else repr(key)


def _field_names(value: object) -> Iterable[str] | None:
    """Give the names of the fields of a record or a dataclass; of anything else None."""
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in fields(value)]
    return None

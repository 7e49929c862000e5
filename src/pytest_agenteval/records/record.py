"""What all records have in common: frozen, as JSON values, and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from pytest_agenteval.errors import UsageMistake

VERSION = 1

Record_ = TypeVar("Record_", bound="Record")
Reads = Callable[[Any], Any]


class Record:
    """A frozen dataclass of what is to be done or what happened."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Give the record as JSON values: maps with texts as keys, lists, texts, finite numbers.

        What JSON does not know is written as text, as in a run's files: infinity, an object of somebody's.
        """
        made: dict[str, Any] = jsonable(self)
        return made

    @classmethod
    def from_json(cls: type[Record_], data: Mapping[str, Any]) -> Record_:
        """Make a record equal to the one that ``to_json`` was asked of; raises TypeError for unknown keys."""
        made: Record_ = _reader_of(cls)(data)
        return made


def versioned(record: Record) -> dict[str, Any]:
    """Give a record as JSON values that travel: with the version of their form."""
    return {**jsonable(record), "v": VERSION}


def read_versioned(kind: type[Record_], data: Mapping[str, Any]) -> Record_:
    """Make a record from what ``versioned`` gave; raises UsageMistake for a form that is not known here."""
    if data.get("v", VERSION) != VERSION:
        raise UsageMistake(
            f"{kind.__name__} in form {data['v']!r}: this pytest-agenteval knows only {VERSION}"
        )
    made: Record_ = _reader_of(kind)({name: value for name, value in data.items() if name != "v"})
    return made


def jsonable(value: Any) -> Any:
    """Turn records, tuples, maps and sets into what JSON knows, all the way down; other things into text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return value if isinstance(value, int) or math.isfinite(value) else _float_name(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: jsonable(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): jsonable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [jsonable(inner) for inner in value]
    if isinstance(value, set | frozenset):
        return sorted(map(jsonable, value), key=repr)
    return repr(value)


def _float_name(number: float) -> str:
    """Name what is no number as a run's files do."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _as_it_is(value: Any) -> Any:
    return value


def _reader_of(kind: Any) -> Reads:
    return _reader(kind)


@cache
def _reader(kind: Any) -> Reads:
    """Give what makes a value of this type from JSON values."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _record_reader(kind)
    if isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return lambda given: kind(*given)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        reads = _reader(next(each for each in inner if each is not type(None)))
        return lambda given: None if given is None else reads(given)
    if origin is tuple:
        each_of = _reader(inner[0])
        return lambda given: tuple(map(each_of, given))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        value_of = _reader(inner[1])
        return lambda given: {key: value_of(value) for key, value in given.items()}
    return _as_it_is


def _record_reader(kind: type) -> Reads:
    hints = get_type_hints(kind)
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}

    def read(given: Mapping[str, Any]) -> Any:
        return kind(**{name: readers.get(name, _as_it_is)(value) for name, value in given.items()})

    return read


class FrozenMap(dict[str, Any]):
    """A dict that refuses to be changed: equal to a dict, written by every JSON encoder, pickled, copied.

    The standard library's read-only view of a dict can be none of that, and one of them in a record would
    keep the whole record from being sent anywhere.
    """

    __slots__ = ()

    def _refuse(self, *args: Any, **more: Any) -> NoReturn:
        raise TypeError("this map cannot be changed: make one of your own with dict(...)")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[FrozenMap], tuple[dict[str, Any]]]:
        return FrozenMap, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]  # dict says None
        return hash(frozenset(self.items()))

    def copy(self) -> dict[str, Any]:
        """Give a dict of its own with the same content, which may be changed."""
        return dict(self)


NOTHING = FrozenMap()
"""The empty map, for records that hold none."""

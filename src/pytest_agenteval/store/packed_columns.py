"""Many frozen values of one kind as columns: small on disk, read back at once, equal in every part.

What is the same for all of them is written once, and shared when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice, repeat
from math import copysign
from typing import Any, NamedTuple

import msgspec

from pytest_agenteval.records.record import NOTHING

SCALARS = frozenset({str, int, float, bool, type(None)})
FEW = 4
"""A column is written as a table where every value stands at least so often in it."""

LISTS: Mapping[str, type] = {"tuple": tuple, "list": list}
SHAPES: Mapping[str, Callable[[Any], Any]] = {**LISTS, "map": lambda value: value or NOTHING}
"""What lists and maps become again: a map that is empty is the one that all records share."""

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder().decode


class Unpackable(ValueError):
    """A value cannot be written exactly: a whole number of more than 64 bits, half a surrogate pair."""


class Column(NamedTuple):
    """What a column is written as: how it is made, and what of."""

    way: str
    parts: Any


def pack(values: Sequence[Any], kinds: Mapping[str, type]) -> bytes:
    """Write values down as columns; raises Unpackable where they would not come back as they are.

    ``kinds`` are the named tuples and structs that the values may be made of.
    """
    try:
        return encode(_column(values, {kind: name for name, kind in kinds.items()}))
    except (OverflowError, UnicodeEncodeError, TypeError) as odd:
        raise Unpackable(str(odd)) from odd


def unpack(packed: bytes, count: int, kinds: Mapping[str, type]) -> list[Any]:
    """Give the so many values that ``pack`` wrote down."""
    return list(islice(_values(decode(packed), kinds), count))


def _column(values: Sequence[Any], names: Mapping[type, str]) -> Column:
    types = set(map(type, values))
    if len(types) == 1 and (kind := next(iter(types))) in names:
        return _records(values, kind, names)
    if type(None) in types and types - {type(None)} <= {*names}:
        there = [value is not None for value in values]
        some = [value for value in values if value is not None]
        return Column("some", (_column(there, names), len(some), _column(some, names)))
    if (
        types == {tuple}
        and (inner := {type(item) for value in values for item in value})
        and inner <= {*names}
    ):
        flat = [item for value in values for item in value]
        return Column("rows", (_column(list(map(len, values)), names), len(flat), _column(flat, names)))
    return _scalars(values, types) if types <= SCALARS else _plain(values)


def _records(values: Sequence[Any], kind: type, names: Mapping[type, str]) -> Column:
    """Write each field as a column of its own; one and the same value for all of them only once."""
    if len(set(map(id, values))) == 1:
        values = values[:1]
    fields = values if issubclass(kind, tuple) else map(msgspec.structs.astuple, values)
    columns = [_column(column, names) for column in zip(*fields, strict=True)]
    return Column("each", (names[kind], columns))


def _scalars(values: Sequence[Any], types: set[type]) -> Column:
    # With its type: 1, 1.0 and true are equal, and are not the same figure in a report.
    told = values if len(types) == 1 else list(zip(map(type, values), values, strict=True))
    distinct = dict.fromkeys(told)
    if len(distinct) * FEW > len(values) and len(distinct) > 1:
        return Column("list", list(values))
    if float in types and any(value == 0 and copysign(1, value) < 0 for value in values if value is not None):
        return Column("list", list(values))  # -0.0 is equal to 0.0
    table = list(distinct) if len(types) == 1 else [value for _, value in distinct]
    return _table(table, told, {value: at for at, value in enumerate(distinct)})


def _plain(values: Sequence[Any]) -> Column:
    """Write lists and maps of scalars, which are told apart by how they are written."""
    for value in values:
        inner = value.values() if isinstance(value, dict) else value
        if not {*map(type, inner)} <= SCALARS:
            raise Unpackable(f"a list or a map of scalars was expected, not {value!r:.80}")
    shape = next((name for name, kind in LISTS.items() if type(values[0]) is kind), "map")
    told = list(map(encode, values))
    distinct = dict(zip(told, values, strict=True))
    where = {text: at for at, text in enumerate(distinct)}
    return Column(shape, _table(list(distinct.values()), told, where))


def _table(table: Sequence[Any], told: Sequence[Any], where: Mapping[Any, int]) -> Column:
    if len(table) == 1:
        return Column("same", table[0])
    return Column("table", (table, [where[value] for value in told]))


def _values(column: Sequence[Any], kinds: Mapping[str, type]) -> Iterable[Any]:
    """Give a column's values; without end where they are all the same."""
    way, parts = column
    if way == "same":
        return repeat(parts)
    if way == "list":
        return list(parts)
    if way == "table":
        return map(parts[0].__getitem__, parts[1])
    if way == "each":
        return _unpacked_records(kinds[parts[0]], parts[1], kinds)
    if way == "rows":
        return _unpacked_rows(parts[0], parts[1], parts[2], kinds)
    if way == "some":
        some = islice(_values(parts[2], kinds), parts[1])
        return (next(some) if there else None for there in _values(parts[0], kinds))
    return _unpacked_plain(way, *parts)


def _unpacked_records(kind: type, columns: Sequence[Any], kinds: Mapping[str, type]) -> Iterable[Any]:
    fields = [_values(column, kinds) for column in columns]
    # A named tuple's own way to be made is Python code.
    is_tuple = issubclass(kind, tuple)
    made = map(partial(tuple.__new__, kind), zip(*fields)) if is_tuple else map(kind, *fields)  # noqa: B905
    return repeat(next(made)) if all(map(_is_same, columns)) else made


def _is_same(column: Sequence[Any]) -> bool:
    """Whether all of a column is one value."""
    way, parts = column
    if way == "each":
        return all(map(_is_same, parts[1]))
    return way == "same" or (way in SHAPES and parts[0] == "same")


def _unpacked_rows(
    lengths: Sequence[Any], count: int, items: Sequence[Any], kinds: Mapping[str, type]
) -> Iterable[Any]:
    flat = islice(_values(items, kinds), count)
    if _is_same(lengths):
        return zip(*[flat] * lengths[1], strict=True)
    return (tuple(islice(flat, length)) for length in _values(lengths, kinds))


def _unpacked_plain(way: str, inner: str, parts: Any) -> Iterable[Any]:
    shape = SHAPES[way]
    if inner == "same":
        return repeat(shape(parts))
    return map(list(map(shape, parts[0])).__getitem__, parts[1])

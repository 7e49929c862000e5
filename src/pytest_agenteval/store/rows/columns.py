"""What columns of rows are: a name, one type for every row, a meaning, and where its values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from operator import attrgetter
from typing import Any, Literal

from msgspec.structs import replace

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import compact_json, jsonable

ColumnType = Literal["text", "texts", "json", "integer", "number", "flag", "time"]
"""What a column holds: ``texts`` are lists of texts, ``json`` is a JSON value as text, ``time`` is in UTC."""

_LARGEST = 2**63 - 1
"""The largest whole number that tables know: 64 bits, with a sign."""


class Column(FrozenValue, frozen=True):
    """A column of rows: ``value`` takes it from what a row is made of.

    Where ``optional`` there may be no value, which is None; every other column has one in every row.
    """

    name: str
    type: ColumnType
    meaning: str
    value: Callable[[Any], Any]
    optional: bool = False

    def of(self, source: object) -> Any:
        """Give the column's value for a row; None also for one that is not of the column's type."""
        value = self.value(source)
        return None if value is None else self.read(value)

    @property
    def read(self) -> Callable[[Any], Any]:
        """What makes a value of the column's type of any that is not None; None of one that is no such."""
        return _READERS[self.type]


def column(name: str, type: ColumnType, value: str | Callable[[Any], Any], meaning: str) -> Column:
    """Make a column; ``value`` may be the path of attributes that lead to it, as in ``entry.key.suite``."""
    return Column(name, type, meaning, attrgetter(value) if isinstance(value, str) else value)


def optional(name: str, type: ColumnType, value: str | Callable[[Any], Any], meaning: str) -> Column:
    """Make a column that has no value in some rows."""
    return replace(column(name, type, value, meaning), optional=True)


# Transcripts are taken as they stand in files that anybody may have edited, and a table bears no number in a
# column of texts: what is of another type is turned into text, or left out.
def _text(value: Any) -> str:
    text = value if isinstance(value, str) else compact_json(jsonable(value))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _texts(value: Any) -> list[str]:
    return [_text(text) for text in value] if isinstance(value, Iterable) else []


def _json(value: Any) -> str:
    return _text(compact_json(jsonable(value)))


def _integer(value: Any) -> int | None:
    return value if type(value) is int and -_LARGEST <= value <= _LARGEST else None


def _number(value: Any) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if isfinite(number) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
    except (ValueError, TypeError):
        return None
    try:
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except OverflowError:  # the first day of all, somewhere east
        return None


_READERS: Mapping[ColumnType, Callable[[Any], Any]] = {
    "text": _text,
    "texts": _texts,
    "json": _json,
    "integer": _integer,
    "number": _number,
    "flag": _flag,
    "time": _time,
}

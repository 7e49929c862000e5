"""Values with columns in them: ``{{ question }}`` stands for what a row has there.

A text that is one column and nothing else becomes that row's value, whatever its type; within other text a
value is written as text. ``{{ points | number }}`` reads a text as a number, ``| json`` as JSON, and
``| list`` as texts between commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pytest_agenteval.tasks.rows.strict_json import STRICT_JSON
from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import KeyPath, did_you_mean, nearest_names
from pytest_agenteval.text.json_values import ABSENT, PathError, compact_json, parse_path, value_at

Fill: TypeAlias = Callable[[Mapping[str, Any]], Any]
_COLUMN = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


class UnreadableCell(ValueError):
    """A cell that cannot be read as the template wants it."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.expected, self.found = expected, found


class TemplateProblem(NamedTuple):
    """What is wrong with a template, at a key below it."""

    path: KeyPath
    expected: str
    found: str
    hint: str = ""


class Template:
    """A value of a suite's file, ready to be filled in with one row after another."""

    def __init__(self, value: Any, columns: Sequence[str]) -> None:
        self._columns = columns
        self.problems: list[TemplateProblem] = []
        self._constant, self._fill = value, self._filling(value, ())

    def filled(self, row: Mapping[str, Any]) -> Any:
        """Give the value for a row; raises UnreadableCell.

        Where a row has no value the key of the map, or the place in the list, is left out.
        """
        return self._constant if self._fill is None else self._fill(row)

    def _filling(self, value: Any, path: KeyPath) -> Fill | None:
        """Give what fills a value in; None for one without columns."""
        if isinstance(value, str):
            return self._of_text(value, path)
        if isinstance(value, Mapping):
            return _of_map({key: (inner, self._filling(inner, (*path, key))) for key, inner in value.items()})
        if isinstance(value, list | tuple):
            return _of_list([(inner, self._filling(inner, (*path, at))) for at, inner in enumerate(value)])
        return None

    def _of_text(self, text: str, path: KeyPath) -> Fill | None:
        pieces = _COLUMN.split(text)
        if len(pieces) == 1:
            return None
        cells = [self._cell(written, path) for written in pieces[1::2]]
        if len(cells) == 1 and not pieces[0].strip() and not pieces[2].strip():
            return cells[0]
        texts = pieces[0::2]

        def fill(row: Mapping[str, Any]) -> str:
            inner = (cell_text(cell(row)) for cell in cells)
            return texts[0] + "".join(f"{value}{text}" for value, text in zip(inner, texts[1:], strict=True))

        return fill

    def _cell(self, written: str, path: KeyPath) -> Fill:
        """Give what takes a column's value out of a row."""
        name, bar, reading = (part.strip() for part in written.rpartition("|"))
        if not bar or written.strip() in self._columns:
            name, reading = written.strip(), ""
        take = self._taking(name, path)
        if not reading:
            return take
        read = READINGS.get(reading)
        if read is None:
            self.problems.append(
                TemplateProblem(
                    path,
                    f"one of {', '.join(READINGS)} behind |",
                    repr(reading),
                    did_you_mean(reading, READINGS),
                )
            )
            return take
        return lambda row: read(take(row))

    def _taking(self, name: str, path: KeyPath) -> Fill:
        if name in self._columns:
            return lambda row: row.get(name)
        try:
            steps = parse_path(name)
        except PathError:
            steps = (name,)
        if steps[0] not in self._columns:
            known = f"a column: one of {nearest_names(name, self._columns)}"
            self.problems.append(TemplateProblem(path, known, repr(name), did_you_mean(name, self._columns)))

        def take(row: Mapping[str, Any]) -> Any:
            value = value_at(row, steps)
            return None if value is ABSENT else value

        return take


def has_columns(value: Any, path: KeyPath = ()) -> bool:
    """Whether a value, or what stands at a path in it, differs from row to row."""
    for step in path:
        if isinstance(value, str):
            break
        try:
            value = value[step]
        except (LookupError, TypeError):
            break
    return any(map(_COLUMN.search, _texts(value)))


def cell_text(value: Any) -> str:
    """Write a row's value as text: nothing for no value, JSON for what is neither text nor number."""
    if isinstance(value, str):
        return value
    return "" if value is None else compact_json(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    ):
        yield from _texts(inner)


def _of_map(entries: Mapping[str, tuple[Any, Fill | None]]) -> Fill | None:
    if not any(fill for _, fill in entries.values()):
        return None

    def fill_map(row: Mapping[str, Any]) -> dict[str, Any]:
        values = {key: value if fill is None else fill(row) for key, (value, fill) in entries.items()}
        return {key: value for key, value in values.items() if value is not None or entries[key][1] is None}

    return fill_map


def _of_list(entries: Sequence[tuple[Any, Fill | None]]) -> Fill | None:
    if not any(fill for _, fill in entries):
        return None

    def fill_list(row: Mapping[str, Any]) -> list[Any]:
        values = [(value if fill is None else fill(row), fill) for value, fill in entries]
        return [value for value, fill in values if value is not None or fill is None]

    return fill_list


def _number(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if value == "":
        return None
    try:
        number = STRICT_JSON.decode(text)
    except (ValueError, RecursionError):
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise UnreadableCell("a number, as in 12 or 0.5", value_text(value))
    return number


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return STRICT_JSON.decode(value)
    except RecursionError:
        found = "more levels than can be read"
    except ValueError as wrong:
        found = f"{value[:60]!r} ({wrong})"
    raise UnreadableCell("JSON", found)


def _list(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return value
    return [part.strip() for part in cell_text(value).split(",") if part.strip()]


READINGS: Mapping[str, Callable[[Any], Any]] = {"number": _number, "json": _json, "list": _list}
"""What may stand behind a column's name: how its text is read."""

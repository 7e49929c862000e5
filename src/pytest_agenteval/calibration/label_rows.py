"""Files of labels, row by row: JSON lines, or CSV with a column for each value."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.documents import read_bytes, short_path
from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean

KEYS = ("id", "input", "output", "scores", "scale", "label_source", "labeller", "note")
NO_COLUMNS = ("scores", "scale")
"""What a CSV file has no single column for."""

JSON_LINES, CSV = (".jsonl", ".ndjson"), (".csv",)
A_ROW = "an object with input, output and scores"


class LabelRow(FrozenValue, frozen=True):
    """One example as it was written: its line, its parts by key, and the column that each came from."""

    line: int
    parts: Mapping[str, Any]
    columns: Mapping[KeyPath, str]

    def place(self, path: KeyPath) -> KeyPath:
        """Name a part as its author finds it: by its column, or by its keys."""
        column = self.columns.get(path)
        return path if column is None else (column,)

    def is_of_all(self, path: KeyPath) -> bool:
        """Whether what is wrong with a part is wrong in all rows: a CSV file has no column for it."""
        if not self.columns:
            return False
        return path == ("input",) or not any(place[0] == path[0] for place in self.columns)


def read_label_rows(path: Path, dimensions: Sequence[str], problems: list[Problem]) -> list[LabelRow]:
    """Read the rows of a file, as far as they can be read; what is wrong with the others is added.

    Raises ProblemsFound where nothing can be read at all. Bare column names are taken for ``dimensions``.
    """
    suffix = path.suffix.lower()
    if suffix not in (*JSON_LINES, *CSV):
        _refuse(path, None, "a file of labels that ends in .jsonl or .csv", repr(path.name))
    text = _text(path)
    if suffix in CSV:
        return list(_csv_rows(path, text, dimensions, problems))
    return list(_json_rows(path, text, problems))


def _text(path: Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = data.count(b"\n", 0, broken.start) + 1
        _refuse(path, line, "a text in UTF-8", f"the byte 0x{data[broken.start]:02x}")


def _json_rows(path: Path, text: str, problems: list[Problem]) -> Iterator[LabelRow]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = _decode(line)
        except ValueError as broken:
            found = broken.msg if isinstance(broken, json.JSONDecodeError) else str(broken)
            problems.append(Problem(short_path(path), number, (), "one JSON object in one line", found))
            continue
        except RecursionError:
            found = "more levels than can be read"
            problems.append(Problem(short_path(path), number, (), "one JSON object in one line", found))
            continue
        if not isinstance(value, dict):
            problems.append(Problem(short_path(path), number, (), A_ROW, value_text(value)))
            continue
        problems += _unknown(path, number, value, KEYS)
        yield LabelRow(number, value, {})


def _csv_rows(
    path: Path, text: str, dimensions: Sequence[str], problems: list[Problem]
) -> Iterator[LabelRow]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        head = [name.strip() for name in next(reader, [])]
        places = _places(path, head, dimensions, problems)
        before = reader.line_num
        for cells in reader:
            line, before = before + 1, reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(head):
                expected = f"{len(head)} cells, as the first line has"
                hint = "a text with commas or line breaks stands in double quotes"
                problems.append(Problem(short_path(path), line, (), expected, f"{len(cells)}", hint))
                continue
            yield _csv_row(line, head, places, cells)
    except csv.Error as broken:
        _refuse(
            path, reader.line_num, "CSV: cells between commas, in double quotes where needed", str(broken)
        )


def _places(
    path: Path, head: Sequence[str], dimensions: Sequence[str], problems: list[Problem]
) -> dict[str, KeyPath]:
    """Say what each column holds, by its name in the first line."""
    singles = [key for key in KEYS if key not in NO_COLUMNS]
    columns = (*singles, "input.NAME", *(f"score.{name}" for name in dimensions))
    places: dict[str, KeyPath] = {}
    for name in head:
        place = _place(name, singles, dimensions)
        if place is not None and place not in places.values():
            places[name] = place
            continue
        found = f"unknown column {name!r}" if place is None else f"a second column {name!r}"
        hint = did_you_mean(name, columns) if place is None else ""
        problems.append(Problem(short_path(path), 1, (name,), f"one of {', '.join(columns)}", found, hint))
    return places


def _place(name: str, singles: Sequence[str], dimensions: Sequence[str]) -> KeyPath | None:
    """Give where JSON would have what a column holds; None for a column that nobody knows."""
    kind, _, rest = name.partition(".")
    if kind == "input" and rest:
        return ("input", rest)
    dimension = rest if kind == "score" else name
    if dimension in dimensions:
        return ("scores", dimension)
    return (name,) if name in singles else None


def _csv_row(line: int, head: Sequence[str], places: Mapping[str, KeyPath], cells: Sequence[str]) -> LabelRow:
    """Put cells where JSON would have them; an empty cell says nothing, but for texts that may be empty."""
    parts: dict[str, Any] = {"scores": {}}
    for name, cell in zip(head, cells, strict=True):
        place = places.get(name)
        if place is None or (place[0] not in ("input", "output") and not cell.strip()):
            continue
        value: Any = _number(cell) if place[0] == "scores" else cell
        if len(place) == 1:
            parts[str(place[0])] = value
        else:
            parts.setdefault(str(place[0]), {})[place[1]] = value
    return LabelRow(line, parts, {place: name for name, place in places.items()})


def _number(cell: str) -> Any:
    """Give a cell's number; what is none stays text, to be told by whoever wants a number."""
    try:
        return float(cell)
    except ValueError:
        return cell


def _unknown(path: Path, line: int, value: Iterable[str], keys: Sequence[str]) -> Iterator[Problem]:
    for key in value:
        if key not in keys:
            expected, found = f"one of {', '.join(keys)}", f"unknown key {key!r}"
            yield Problem(short_path(path), line, (key,), expected, found, did_you_mean(key, keys))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise ValueError(f"the key {twice!r} stands there twice")
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text}, which is no JSON")


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).decode


def _refuse(path: Path, line: int | None, expected: str, found: str) -> NoReturn:
    raise ProblemsFound([Problem(short_path(path), line, (), expected, found)]) from None

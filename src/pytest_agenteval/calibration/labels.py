"""Labelled examples: how files of labels are read, as JSON lines or CSV, and all that is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args

from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.graders.judge.verdicts import Judgement
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.row_tables import Report, csv_lines, json_lines, read_text
from pytest_agenteval.tasks.validation import value_text
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean

LabelSource = Literal["human", "constructed"]
SOURCES: tuple[LabelSource, ...] = get_args(LabelSource)

ROW_KEYS = ("id", "input", "output", "scores", "scale", "label_source", "labeller", "note")
NO_COLUMNS = ("scores", "scale")
"""What a CSV file has no single column for."""

JSON_LINES, CSV = (".jsonl", ".ndjson"), (".csv",)

Scale = tuple[float, float]
ZERO_TO_ONE: Scale = (0.0, 1.0)


class LabelledExample(FrozenValue, frozen=True):
    """One thing to judge, with a label from 0 to 1 for some or all dimensions.

    ``values`` holds everything that the rubric shows, by name; ``output`` is the value that is judged.
    Labels are ``human`` where a person gave them, ``constructed`` where they follow from how the example was
    made.
    """

    id: str
    values: Mapping[str, str]
    output: str
    labels: Mapping[str, float]
    source: LabelSource = "human"
    note: str = ""

    @property
    def judged(self) -> str:
        """The text of the output."""
        return self.values[self.output]

    @property
    def given(self) -> Mapping[str, str]:
        """Everything else that the judge is shown, by name."""
        return {name: value for name, value in self.values.items() if name != self.output}


class ExampleJudgement(FrozenValue, frozen=True):
    """One example, judged once: all judges side by side. ``repetition`` counts from 1."""

    example: LabelledExample
    repetition: int
    judgement: Judgement

    def score(self, judge: str, dimension: str) -> float | None:
        """Give one judge's score, or that of all together where ``judge`` is empty; None for no score."""
        if not judge:
            return self.judgement.scores.get(dimension)
        return next(vote.scores.get(dimension) for vote in self.judgement.votes if vote.judge == judge)


@dataclass(frozen=True, slots=True)
class CalibrationAnswers:
    """Everything that the judges answered, and what each of them took, by name."""

    judges: tuple[Model, ...]
    asks: tuple[ExampleJudgement, ...]
    usage: Mapping[str, Usage] = field(default_factory=lambda: NOTHING)


def describe_label_sources(examples: Iterable[LabelledExample]) -> str:
    """Say how many examples there are and where their labels come from: ``70 constructed labels``."""
    counts = Counter(example.source for example in examples)
    named = [f"{counts[source]} {source}" for source in SOURCES if counts[source]]
    label = "label" if counts.total() == 1 else "labels"
    return f"{' and '.join(named)} {label}" if named else "no labels"


class LabelRow(FrozenValue, frozen=True):
    """One example as it was written: its line, its parts by key, and the column that each came from.

    ``columns`` is empty for a line of JSON.
    """

    line: int
    parts: Mapping[str, Any]
    columns: Mapping[KeyPath, str]

    def place(self, path: KeyPath) -> KeyPath:
        """Name a part as its author finds it: by its column, or by its keys."""
        column = self.columns.get(path)
        return path if column is None else (column,)

    def is_of_all(self, path: KeyPath) -> bool:
        """Whether a part is wrong in every row, because the CSV file has no column for it."""
        if not self.columns:
            return False
        return path == ("input",) or not any(place[0] == path[0] for place in self.columns)


def read_label_rows(path: Path, dimensions: Sequence[str], problems: list[Problem]) -> list[LabelRow]:
    """Read the rows of a file that can be read; what is wrong with the others is added to ``problems``.

    Raises ProblemsFound where nothing can be read at all. In a CSV file, columns named like one of the
    ``dimensions`` hold its labels.
    """
    suffix, file = path.suffix.lower(), short_path(path)
    if suffix not in (*JSON_LINES, *CSV):
        expected = "a file of labels that ends in .jsonl or .csv"
        raise ProblemsFound([Problem(file, None, (), expected, repr(path.name))])
    text = read_text(path)

    def report(line: int, expected: str, found: str, hint: str = "", path: KeyPath = ()) -> None:
        problems.append(Problem(file, line, path, expected, found, hint))

    if suffix in CSV:
        lines = csv_lines(text, ",", report)
        names = [name.strip() for name in lines[0][1]] if lines else []
        places = _column_places(names, dimensions, report)
        return [_csv_row(line, names, places, cells) for line, cells in lines[1:]]
    rows = []
    for line, value in json_lines(text, report):
        if isinstance(value, dict):
            for key in (key for key in value if key not in ROW_KEYS):
                hint = did_you_mean(key, ROW_KEYS)
                report(line, f"one of {', '.join(ROW_KEYS)}", f"unknown key {key!r}", hint, (key,))
            rows.append(LabelRow(line, value, {}))
        else:
            report(line, "an object with input, output and scores", value_text(value))
    return rows


def _column_places(names: Sequence[str], dimensions: Sequence[str], report: Report) -> dict[str, KeyPath]:
    """Give, by column, where a line of JSON would have what it holds; other columns are reported."""
    singles = [key for key in ROW_KEYS if key not in NO_COLUMNS]
    columns = (*singles, "input.NAME", *(f"score.{name}" for name in dimensions))
    places: dict[str, KeyPath] = {}
    for name in names:
        place = _column_place(name, singles, dimensions)
        if place is not None and place not in places.values():
            places[name] = place
            continue
        found = f"unknown column {name!r}" if place is None else f"a second column {name!r}"
        near = did_you_mean(name, columns) if place is None else ""
        report(1, f"one of {', '.join(columns)}", found, near, (name,))
    return places


def _column_place(name: str, singles: Sequence[str], dimensions: Sequence[str]) -> KeyPath | None:
    kind, _, rest = name.partition(".")
    if kind == "input" and rest:
        return ("input", rest)
    # A dimension's column is named in full, `score.tone`, or shortly, `tone`.
    dimension = rest if kind == "score" else name
    if dimension in dimensions:
        return ("scores", dimension)
    return (name,) if name in singles else None


def _csv_row(
    line: int, names: Sequence[str], places: Mapping[str, KeyPath], cells: Sequence[str]
) -> LabelRow:
    """Put cells where a line of JSON would have them; an empty cell is no value."""
    parts: dict[str, Any] = {"scores": {}}
    for name, cell in zip(names, cells, strict=True):
        place = places.get(name)
        # What is judged, and what is shown with it, may be an empty text: an agent may answer nothing.
        if place is None or (place[0] not in ("input", "output") and not cell.strip()):
            continue
        value: Any = cell
        if place[0] == "scores":
            # Anything else stays text, so that the problem can quote it.
            with suppress(ValueError):
                value = float(cell)
        if len(place) == 1:
            parts[str(place[0])] = value
        else:
            parts.setdefault(str(place[0]), {})[place[1]] = value
    return LabelRow(line, parts, {place: name for name, place in places.items()})


def read_labels(path: Path, rubric: Rubric, scale: Scale = ZERO_TO_ONE) -> tuple[LabelledExample, ...]:
    """Read every example of a file; raises ProblemsFound with all that its author has to mend.

    Labels are numbers on the line's own ``scale``, else on this one, and are returned as 0 to 1. A dimension
    without a label, or with null (the person could not tell), is not compared; an example that has no label
    at all is left out.
    """
    examples = read_labels_so_far(path, rubric, scale)
    if not examples:
        raise ProblemsFound([Problem(short_path(path), None, (), "1 example or more", "none")])
    return examples


def read_labels_so_far(path: Path, rubric: Rubric, scale: Scale) -> tuple[LabelledExample, ...]:
    """Read as ``read_labels`` does, but allow a file that has no example yet."""
    problems: list[Problem] = []
    rows = read_label_rows(path, rubric.names, problems)
    reader = _Reader(path, rubric, scale, problems)
    examples = [reader.example(row) for row in rows]
    # Problems of lines that cannot be read at all were found first: sorted, they stand where their line is.
    if problems:
        raise ProblemsFound(sorted(problems, key=lambda problem: problem.line or 0))
    return tuple(example for example in examples if example.labels)


class _Reader:
    """Reads rows for one rubric, and collects what is wrong with them."""

    def __init__(self, path: Path, rubric: Rubric, scale: Scale, problems: list[Problem]) -> None:
        self._file, self._rubric, self._scale, self._problems = short_path(path), rubric, scale, problems
        self._given = [name for name in rubric.shows if name != rubric.output]
        self._ids: dict[str, int] = {}

    def example(self, row: LabelRow) -> LabelledExample:
        """Give an example; where something is wrong, it lacks that part and a problem is added."""
        output = self._text(row, ("output",), row.parts.get("output"), "what is judged, as text")
        # No part of an example, but checked here: review reads it to know whose file it is.
        self._text(row, ("labeller",), row.parts.get("labeller", ""), "a text: who gave the labels")
        return LabelledExample(
            id=self._id(row),
            values={**self._input(row), self._rubric.output: output},
            output=self._rubric.output,
            labels=dict(self._labels(row)),
            source=self._source(row),
            note=self._text(row, ("note",), row.parts.get("note", ""), "a text"),
        )

    def _source(self, row: LabelRow) -> LabelSource:
        # A row without it is a user's own, which people labelled.
        value = row.parts.get("label_source", "human")
        source = next((name for name in SOURCES if name == value), None)
        if source is None:
            hint = did_you_mean(value, SOURCES) if isinstance(value, str) else ""
            self._wrong(row, ("label_source",), " or ".join(SOURCES), value_text(value), hint)
        return source or "human"

    def _id(self, row: LabelRow) -> str:
        id = row.parts.get("id", f"line-{row.line}")
        if not isinstance(id, str) or not id.strip():
            self._wrong(row, ("id",), "a text that is not blank", value_text(id))
            return ""
        first = self._ids.setdefault(id, row.line)
        if first != row.line:
            self._wrong(row, ("id",), "an id of its own", f"{id!r}, which line {first} has too")
        return id

    def _input(self, row: LabelRow) -> dict[str, str]:
        """Give the values that the rubric shows beside the output, by name."""
        value, given = row.parts.get("input"), self._given
        # Where the rubric shows one value only, its name need not be repeated in every line.
        if isinstance(value, str) and len(given) == 1:
            return {given[0]: value}
        if "input" not in row.parts and not given:
            return {}
        if not isinstance(value, Mapping):
            expected = f"an object with {', '.join(given)}: what the rubric shows"
            found = value_text(value) if "input" in row.parts else "no input"
            self._wrong(row, ("input",), expected, found, self._columns(row, given))
            return {}
        for name in value:
            if name not in given:
                self._unknown(row, ("input", name), "value", given)
        missing = [name for name in given if name not in value]
        if missing:
            expected, found = f"{', '.join(given)}: what the rubric shows", f"no {', '.join(missing)}"
            self._wrong(row, ("input",), expected, found, self._columns(row, missing))
        shared = [name for name in given if name in value]
        return {name: self._text(row, ("input", name), value[name], "a text") for name in shared}

    def _labels(self, row: LabelRow) -> Iterator[tuple[str, float]]:
        scores, names = row.parts.get("scores"), self._rubric.names
        if not isinstance(scores, Mapping) or not scores:
            found = value_text(scores) if "scores" in row.parts else "no scores"
            self._wrong(row, ("scores",), f"a number for one or more of {', '.join(names)}", found)
            return
        low, high = self._scale_of(row)
        for name, value in scores.items():
            if name not in names:
                self._unknown(row, ("scores", name), "dimension", names)
            elif value is not None and self._is_label(row, name, value, low, high):
                yield name, (value - low) / (high - low)

    def _scale_of(self, row: LabelRow) -> Scale:
        scale = row.parts.get("scale", self._scale)
        if isinstance(scale, list | tuple) and len(scale) == 2 and all(map(_is_number, scale)):
            low, high = scale
            if low < high:
                return low, high
        self._wrong(row, ("scale",), "a list of two numbers, the lower one first", value_text(scale))
        return self._scale

    def _is_label(self, row: LabelRow, name: str, value: Any, low: float, high: float) -> bool:
        number = _is_number(value)
        if number and low <= value <= high:
            return True
        # A number past the scale is mostly one on another scale: the hint names both ways to set it.
        expected = f"a number from {low:g} to {high:g}"
        hint = "another scale is `scale: [1, 5]` in the calibration file, or --scale 1 5" if number else ""
        self._wrong(row, ("scores", name), expected, value_text(value), hint)
        return False

    def _text(self, row: LabelRow, path: KeyPath, value: Any, expected: str) -> str:
        if isinstance(value, str):
            return value
        self._wrong(row, path, expected, value_text(value) if path[0] in row.parts else f"no {path[0]}")
        return ""

    def _columns(self, row: LabelRow, names: Sequence[str]) -> str:
        """Name the columns that a CSV file lacks; empty for JSON lines."""
        return f"columns {', '.join(f'input.{name}' for name in names)}" if row.columns else ""

    def _unknown(self, row: LabelRow, path: tuple[str, str], kind: str, names: Sequence[str]) -> None:
        expected, found = f"one of {', '.join(names)}", f"the unknown {kind} {path[1]!r}"
        self._wrong(row, path, expected, found, did_you_mean(path[1], names))

    def _wrong(self, row: LabelRow, path: KeyPath, expected: str, found: str, hint: str = "") -> None:
        unknown = bool(row.columns) and path[:-1] == ("input",) and path[-1] not in self._given
        of_all = unknown or row.is_of_all(path)
        # A column that is missing is missing in every row: one problem, on the line of the columns' names.
        problem = Problem(self._file, 1 if of_all else row.line, row.place(path), expected, found, hint)
        if not of_all or problem not in self._problems:
            self._problems.append(problem)


def _is_number(value: Any) -> bool:
    # In Python True is an int, and a CSV cell "nan" is read as a float: neither is a label.
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)

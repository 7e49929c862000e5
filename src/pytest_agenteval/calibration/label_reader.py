"""From a file of labels to examples that a rubric can be asked about, or all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from pytest_agenteval.calibration.examples import SOURCES, LabelledExample, LabelSource
from pytest_agenteval.calibration.label_rows import LabelRow, read_label_rows
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.validation_errors import value_text
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean

Scale = tuple[float, float]
ZERO_TO_ONE: Scale = (0.0, 1.0)


def read_labels(path: Path, rubric: Rubric, scale: Scale = ZERO_TO_ONE) -> tuple[LabelledExample, ...]:
    """Read every example of a file; raises ProblemsFound with all that its author has to mend.

    Labels are numbers on the line's own ``scale``, else on this one, and come out as 0 to 1. A dimension
    without a label, or with null, which says that a person could not tell, is not compared; an example that
    has no other is left out.
    """
    examples = read_labels_so_far(path, rubric, scale)
    if not examples:
        raise ProblemsFound([Problem(short_path(path), None, (), "1 example or more", "none")])
    return examples


def read_labels_so_far(path: Path, rubric: Rubric, scale: Scale) -> tuple[LabelledExample, ...]:
    """Read a file that may have no example yet; else as ``read_labels`` does."""
    problems: list[Problem] = []
    rows = read_label_rows(path, rubric.names, problems)
    reader = _Reader(path, rubric, scale, problems)
    examples = [reader.example(row) for row in rows]
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
        """Give an example, which holds only what could be read."""
        output = self._text(row, ("output",), row.parts.get("output"), "what is judged, as text")
        self._text(row, ("labeller",), row.parts.get("labeller", ""), "a text: who gave the labels")
        return LabelledExample(
            id=self._id(row),
            values={**self._input(row), self._rubric.output: output},
            output=self._rubric.output,
            labels=dict(self._labels(row)),
            source=self._source(row),
            note=self._text(row, ("note",), row.parts.get("note", ""), "a text"),
        )

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
        """Give the values that the rubric shows beside the output; a lone text is its only one."""
        value, given = row.parts.get("input"), self._given
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
                found = f"the unknown value {name!r}"
                self._wrong(
                    row, ("input", name), f"one of {', '.join(given)}", found, did_you_mean(name, given)
                )
        missing = [name for name in given if name not in value]
        if missing:
            found = f"no {', '.join(missing)}"
            expected = f"{', '.join(given)}: what the rubric shows"
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
                found = f"the unknown dimension {name!r}"
                self._wrong(
                    row, ("scores", name), f"one of {', '.join(names)}", found, did_you_mean(name, names)
                )
            elif value is not None and self._is_label(row, name, value, low, high):
                yield name, (value - low) / (high - low)

    def _scale_of(self, row: LabelRow) -> Scale:
        """Give the scale that the line says, else that of the whole file."""
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
        expected = f"a number from {low:g} to {high:g}"
        hint = "another scale is `scale: [1, 5]` in the calibration file, or --scale 1 5" if number else ""
        self._wrong(row, ("scores", name), expected, value_text(value), hint)
        return False

    def _source(self, row: LabelRow) -> LabelSource:
        """Give where the labels come from; a file that does not say holds a user's own, which people gave."""
        value = row.parts.get("label_source", "human")
        source = next((name for name in SOURCES if name == value), None)
        if source is None:
            hint = did_you_mean(value, SOURCES) if isinstance(value, str) else ""
            self._wrong(row, ("label_source",), " or ".join(SOURCES), value_text(value), hint)
        return source or "human"

    def _text(self, row: LabelRow, path: KeyPath, value: Any, expected: str) -> str:
        if isinstance(value, str):
            return value
        self._wrong(row, path, expected, value_text(value) if path[0] in row.parts else f"no {path[0]}")
        return ""

    def _columns(self, row: LabelRow, names: Sequence[str]) -> str:
        """Say which columns a CSV file needs."""
        return f"columns {', '.join(f'input.{name}' for name in names)}" if row.columns else ""

    def _wrong(self, row: LabelRow, path: KeyPath, expected: str, found: str, hint: str = "") -> None:
        unknown = bool(row.columns) and path[:-1] == ("input",) and path[-1] not in self._given
        of_all = unknown or row.is_of_all(path)
        # A column that is missing is missing in every row: one problem, on the line of the columns' names.
        problem = Problem(self._file, 1 if of_all else row.line, row.place(path), expected, found, hint)
        if not of_all or problem not in self._problems:
            self._problems.append(problem)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)

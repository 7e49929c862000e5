"""Labelled examples: how files of labels are read, as JSON lines or CSV, and all that is wrong with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.graders.judge.verdicts import Judgement
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.tasks.documents import short_path
from pytest_agenteval.tasks.row_tables import Report, csv_lines, json_lines, read_text
from pytest_agenteval.tasks.task_spec import Named, Number, Spec, expects
from pytest_agenteval.tasks.validation import SpecRefused, problems_of, spec_of, value_text
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean

LabelSource = Literal["human", "constructed"]
SOURCES: tuple[LabelSource, ...] = get_args(LabelSource)

JSON_LINES, CSV = (".jsonl", ".ndjson"), (".csv",)

Scale = tuple[float, float]
ZERO_TO_ONE: Scale = (0.0, 1.0)


class LabelledExample(FrozenValue, frozen=True):
    """An example with labels from 0 to 1 for some or all dimensions.

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
    """One example, judged once by all judges.

    ``repetition`` counts from 1.
    """

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
    """All replies of the judges and their usage, by judge."""

    judges: tuple[Model, ...]
    asks: tuple[ExampleJudgement, ...]
    usage: Mapping[str, Usage] = field(default_factory=lambda: NOTHING)


def describe_label_sources(examples: Iterable[LabelledExample]) -> str:
    """Say how many examples there are and where their labels come from: ``70 constructed labels``."""
    counts = Counter(example.source for example in examples)
    named = [f"{counts[source]} {source}" for source in SOURCES if counts[source]]
    label = "label" if counts.total() == 1 else "labels"
    return f"{' and '.join(named)} {label}" if named else "no labels"


class LabelSpec(Spec, frozen=True, kw_only=True):
    """One example as its author writes it: a line of JSON, or a row of a CSV file."""

    output: Annotated[str, expects("what is judged, as text")]
    scores: Annotated[
        Mapping[str, Number | None],
        Meta(min_length=1),
        expects("a number for one dimension or more, null for one that cannot be decided"),
    ]
    input: Annotated[
        str | Mapping[str, str], expects("what the rubric shows, by name; one text where it shows one")
    ] = NOTHING
    id: Annotated[Named, expects("a text that is not blank")] = ""
    scale: Annotated[
        tuple[Number, Number] | None, expects("a list of two numbers: the lowest label and the highest")
    ] = None
    label_source: Annotated[LabelSource, expects(" or ".join(SOURCES))] = "human"
    labeller: Annotated[str, expects("a text: who gave the labels")] = ""
    note: Annotated[str, expects("a text")] = ""


ROW_KEYS = LabelSpec.__struct_fields__


class LabelRow(FrozenValue, frozen=True):
    """One example with its line, its parts by key, and the column of each in a CSV file."""

    line: int
    parts: Mapping[str, Any]
    columns: Mapping[KeyPath, str] = {}

    def line_of(self, path: KeyPath) -> int:
        return self.line

    def problem(self, file: str, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
        """Make a problem of a part, named as its author finds it: by its column, or by its keys."""
        place = (self.columns[path],) if path in self.columns else path
        return Problem(file, self.line, place, expected, found, hint)


def read_label_rows(path: Path, rubric: Rubric, problems: list[Problem]) -> list[LabelRow]:
    """Read the rows of a file that can be read; what is wrong with the others is added to ``problems``.

    Raises ProblemsFound where nothing can be read at all.
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
        places = _column_places(names, rubric, report) if lines else {}
        # Columns that are missing are missing in every row: only they are named then.
        whole = () if any(problem.line == 1 for problem in problems) else lines[1:]
        return [_csv_row(line, names, places, cells) for line, cells in whole]
    rows = []
    for line, value in json_lines(text, report):
        if isinstance(value, dict):
            rows.append(LabelRow(line, value))
        else:
            report(line, "an object with input, output and scores", value_text(value))
    return rows


def _column_places(names: Sequence[str], rubric: Rubric, report: Report) -> dict[str, KeyPath]:
    """Give, by column, where a line of JSON would have what it holds; report others, and those it lacks."""
    singles = [key for key in ROW_KEYS if key not in ("scores", "scale")]
    columns = (*singles, "input.NAME", *(f"score.{name}" for name in rubric.names))
    places: dict[str, KeyPath] = {}
    for name in names:
        place = _column_place(name, singles, rubric.names)
        if place is not None and place not in places.values():
            places[name] = place
            continue
        found = f"unknown column {name!r}" if place is None else f"a second column {name!r}"
        near = did_you_mean(name, columns) if place is None else ""
        report(1, f"one of {', '.join(columns)}", found, near, (name,))
    needed: list[KeyPath] = [("input", name) for name in rubric.shows if name != rubric.output]
    if len(needed) == 1 and ("input",) in places.values():
        needed = []
    for missing in (place for place in (("output",), *needed) if place not in places.values()):
        name = ".".join(map(str, missing))
        report(1, f"a column {name}", "none", path=(name,))
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
    rows = read_label_rows(path, rubric, problems)
    lines: dict[str, int] = {}
    examples = []
    for row in rows:
        try:
            spec = spec_of(LabelSpec, row.parts)
        except SpecRefused:
            document: Any = row
            found = problems_of(LabelSpec, row.parts, document, file=short_path(path)).problems
            problems += [
                row.problem(each.file, each.path, each.expected, each.found, each.hint) for each in found
            ]
            continue
        wrong = list(_mistakes(spec, row, rubric, spec.scale or scale, lines))
        problems += [row.problem(short_path(path), *each) for each in wrong]
        if not wrong and any(label is not None for label in spec.scores.values()):
            examples.append(_example(spec, row, rubric, spec.scale or scale))
    # Problems of lines that cannot be read at all were found first: sorted, they stand where their line is.
    if problems:
        raise ProblemsFound(sorted(problems, key=lambda problem: problem.line or 0))
    return tuple(examples)


def _mistakes(
    spec: LabelSpec, row: LabelRow, rubric: Rubric, scale: Scale, lines: dict[str, int]
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Find what rubric, scale and other lines refuse; ``lines`` has the line of each id so far."""
    given = [name for name in rubric.shows if name != rubric.output]
    shown = spec.input
    if isinstance(shown, str):
        shown = dict.fromkeys(given, shown) if len(given) == 1 else NOTHING
    for kind, key, names, there in (
        ("value", "input", given, shown),
        ("dimension", "scores", rubric.names, spec.scores),
    ):
        for name in (name for name in there if name not in names):
            unknown = f"the unknown {kind} {name!r}"
            yield (key, name), f"one of {', '.join(names)}", unknown, did_you_mean(name, names)
    if missing := [name for name in given if name not in shown]:
        yield ("input",), f"{', '.join(given)}: what the rubric shows", f"no {', '.join(missing)}", ""
    if spec.id and lines.setdefault(spec.id, row.line) != row.line:
        yield ("id",), "an id of its own", f"{spec.id!r}, which line {lines[spec.id]} has too", ""
    low, high = scale
    if low >= high:
        yield ("scale",), "two numbers, the lower one first", f"{low:g} and {high:g}", ""
        return
    for name, label in spec.scores.items():
        if name in rubric.names and label is not None and not low <= label <= high:
            # A number past the scale is mostly one on another scale: the hint names both ways to set it.
            hint = "another scale is `scale: [1, 5]` in the calibration file, or --scale 1 5"
            yield (
                ("scores", name),
                f"a number from {low:g} to {high:g}",
                value_text(row.parts["scores"][name]),
                hint,
            )


def _example(spec: LabelSpec, row: LabelRow, rubric: Rubric, scale: Scale) -> LabelledExample:
    given = next((name for name in rubric.shows if name != rubric.output), "")
    shown = {given: spec.input} if isinstance(spec.input, str) else spec.input
    low, high = scale
    labels = {name: (label - low) / (high - low) for name, label in spec.scores.items() if label is not None}
    return LabelledExample(
        id=spec.id or f"line-{row.line}",
        values={**shown, rubric.output: spec.output},
        output=rubric.output,
        labels=labels,
        source=spec.label_source,
        note=spec.note,
    )

"""From a calibration file to a plan of it: examples, rubric, and what the judges have to reach."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn, Protocol

from pytest_agenteval.calibration.labels import LabelledExample, describe_label_sources, read_labels
from pytest_agenteval.compare.scoring.agreement import METRICS
from pytest_agenteval.graders.judge.rubric import Rubric, is_question, question_rubric, read_rubric
from pytest_agenteval.records.record import NOTHING, FrozenValue, same_fields
from pytest_agenteval.tasks.documents import ParsedDocument, read_document, short_path
from pytest_agenteval.tasks.row_tables import read_text
from pytest_agenteval.tasks.task_spec import (
    Count,
    Holds,
    Id,
    Named,
    Number,
    Positive,
    Share,
    Spec,
    Tag,
    Tokens,
    expects,
)
from pytest_agenteval.tasks.validation import read_spec
from pytest_agenteval.text.errors import KeyPath, Problem, ProblemsFound, did_you_mean

Threshold = Annotated[
    Number | Mapping[str, Number], expects("a number, or a map with a number for each dimension")
]
ENDING = ".jinja"
SCORED = "scored"
"""A threshold of its own kind: how many examples have to have a score, for fewer say little."""


def _is_rising(scale: tuple[float, float]) -> bool:
    return scale[0] < scale[1]


class Calibration(Spec, frozen=True, kw_only=True):
    """How judges are compared with labels: which labels, by which rubric, and how well they have to agree."""

    kind: Annotated[Literal["calibration"], expects("calibration")]
    id: Annotated[Id, expects("a text with no space, slash, colon or bracket")]
    description: Annotated[str, expects("a text: what is measured")] = ""
    labels: Annotated[Named, expects("the path of a file of labels, .jsonl or .csv, from this file's folder")]
    rubric: Annotated[
        Named,
        expects(
            "a question, a registered rubric's name, or the path of a .jinja file from this file's folder"
        ),
    ]
    repeats: Annotated[Count, expects("a whole number, 1 or more: asks of each judge per example")] = 1
    tolerance: Annotated[
        Positive, expects("a number above 0: the largest distance from the label, of 0 to 1")
    ] = 0.15
    scale: Annotated[
        tuple[Number, Number],
        Holds(_is_rising),
        expects("a list of two numbers: the lowest and highest possible label"),
    ] = (0.0, 1.0)
    pass_threshold: Annotated[
        Share, expects("a number from 0 to 1: the score at which an example passes")
    ] = 0.6
    thresholds: Annotated[
        Mapping[str, Threshold],
        expects(
            "a map from figures to the number to reach, for all dimensions or for each by name; "
            "scored: how many examples must have a score (default: half)"
        ),
    ] = NOTHING
    seed: Annotated[Tokens, expects("a whole number, 0 or more: the seed of the intervals")] = 0
    tags: Annotated[tuple[Tag, ...], expects("a list of texts without spaces")] = ()

    def __post_init__(self) -> None:
        # msgspec, which reads the file, does not know `Holds`: that is for schemas, and for explaining what
        # is wrong once a file was refused.
        if not _is_rising(self.scale):
            raise ValueError("not rising")


class MetricThreshold(FrozenValue, frozen=True):
    """A figure that a dimension must reach."""

    metric: str
    dimension: str
    threshold: float


class CalibrationPlan(FrozenValue, frozen=True):
    """What judges score, and how scores are compared with labels.

    ``file`` and ``line`` are where it is written, ``labels`` is the file of its examples, as shown to people;
    ``cassette`` is the path of its recordings without its ending.
    """

    id: str
    file: str
    line: int
    labels: str
    rubric: Rubric
    examples: tuple[LabelledExample, ...]
    thresholds: tuple[MetricThreshold, ...]
    repeats: int = 1
    tolerance: float = 0.15
    pass_threshold: float = 0.6
    seed: int = 0
    description: str = ""
    tags: tuple[str, ...] = ()
    cassette: str = ""

    @property
    def label_sources(self) -> str:
        """The number of examples and who labelled them: ``70 constructed labels``."""
        return describe_label_sources(self.examples)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The rubric's dimensions that some example has a label for, in the rubric's order."""
        labelled = {name for example in self.examples for name in example.labels}
        return tuple(name for name in self.rubric.names if name in labelled)


class RubricNames(Protocol):
    """Rubrics by name, as the registry has them, which is a room above this one."""

    @property
    def rubric_names(self) -> Sequence[str]: ...

    def rubric(self, name: str) -> Rubric: ...


def read_calibration(path: Path, root: Path, rubrics: RubricNames) -> CalibrationPlan:
    """Read a calibration with its rubric and its labels; raises ProblemsFound with all that is wrong.

    ``root`` is the project's folder, which holds the cassettes.
    """
    document = read_document(path)
    calibration = read_spec(Calibration, document)
    # What is wrong with the rubric is raised at once: thresholds and labels are both checked against it.
    rubric = _rubric(calibration, document, rubrics)
    problems = list(_threshold_problems(calibration, document, rubric))
    labels = path.parent / calibration.labels
    examples: tuple[LabelledExample, ...] = ()
    try:
        # Caught, so that problems of the labels are listed together with those of the thresholds.
        if not labels.is_file():
            _refuse(document, ("labels",), f"a file: {short_path(labels)}", "none", _beside(labels))
        examples = read_labels(labels, rubric, calibration.scale)
    except ProblemsFound as wrong:
        problems += wrong.problems
    if problems:
        raise ProblemsFound(problems)
    # Recordings mirror the path below evals/, as those of tasks do: evals/a/x.calibration.yaml with the id
    # x has cassettes/a/x. A file outside of the project has no such path: its folder's name stands for it.
    folder = path.parent
    below = folder.relative_to(root) if folder.is_relative_to(root) else Path(folder.name)
    parts = below.parts[1:] if below.parts[:1] == ("evals",) else below.parts
    return CalibrationPlan(
        **same_fields(calibration, ("id", "repeats", "tolerance", "pass_threshold", "seed", "description")),
        file=short_path(path),
        line=document.line_of(("id",)),
        labels=short_path(labels),
        rubric=rubric,
        examples=examples,
        thresholds=tuple(_thresholds(calibration, rubric)),
        tags=calibration.tags,
        cassette=str(Path(root, "cassettes", *parts, calibration.id)),
    )


def _rubric(calibration: Calibration, document: ParsedDocument, rubrics: RubricNames) -> Rubric:
    if calibration.rubric.endswith(ENDING):
        path = document.path.parent / calibration.rubric
        if not path.is_file():
            _refuse(document, ("rubric",), f"a file: {short_path(path)}", "none", _beside(path))
        rubric = read_rubric(read_text(path), short_path(path))
    elif is_question(calibration.rubric):
        rubric = question_rubric(calibration.rubric)
    else:
        names = rubrics.rubric_names
        if calibration.rubric not in names:
            expected = f"one of {', '.join(names)}, or the path of a {ENDING} file"
            hint = did_you_mean(calibration.rubric, names)
            _refuse(document, ("rubric",), expected, repr(calibration.rubric), hint)
        rubric = rubrics.rubric(calibration.rubric)
    # A label belongs to one output. A rubric that shows several side by side gives no score for one of them.
    if rubric.candidates:
        expected = "a rubric that judges one output by itself"
        _refuse(document, ("rubric",), expected, f"{rubric.name}, which compares candidates")
    return rubric


def _threshold_problems(
    calibration: Calibration, document: ParsedDocument, rubric: Rubric
) -> Iterator[Problem]:
    for metric, value in calibration.thresholds.items():
        if metric not in (*METRICS, SCORED):
            yield _unknown(document, ("thresholds", metric), (*METRICS, SCORED), "figure")
        for name in value if isinstance(value, Mapping) else ():
            if name not in rubric.names:
                yield _unknown(document, ("thresholds", metric, name), rubric.names, "dimension")


def _thresholds(calibration: Calibration, rubric: Rubric) -> Iterator[MetricThreshold]:
    for metric, value in calibration.thresholds.items():
        by_dimension = value if isinstance(value, Mapping) else dict.fromkeys(rubric.names, value)
        yield from (MetricThreshold(metric, name, threshold) for name, threshold in by_dimension.items())


def _beside(path: Path) -> str:
    """Name a file of the same folder that may be meant; empty where there is none like it."""
    try:
        return did_you_mean(path.name, (entry.name for entry in os.scandir(path.parent)))
    # The path may lead through a folder that does not exist: the problem is reported without a hint.
    except OSError:
        return ""


def _unknown(document: ParsedDocument, path: KeyPath, names: Sequence[str], kind: str) -> Problem:
    name = str(path[-1])
    found, hint = f"the unknown {kind} {name!r}", did_you_mean(name, names)
    return _problem(document, path, f"one of {', '.join(names)}", found, hint)


def _problem(document: ParsedDocument, path: KeyPath, expected: str, found: str, hint: str = "") -> Problem:
    return Problem(short_path(document.path), document.line_of(path), path, expected, found, hint)


def _refuse(document: ParsedDocument, path: KeyPath, expected: str, found: str, hint: str = "") -> NoReturn:
    raise ProblemsFound([_problem(document, path, expected, found, hint)])

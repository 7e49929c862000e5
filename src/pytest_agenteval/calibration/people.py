"""How far people agree with each other: labels of one file beside those of others, for the same examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_agenteval.calibration.label_reader import ZERO_TO_ONE, read_labels_so_far
from pytest_agenteval.compare.scoring.agreement import mean_absolute_error
from pytest_agenteval.compare.scoring.inter_rater import krippendorff_alpha
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.errors import ProblemsFound, UndefinedStatistic
from pytest_agenteval.text.json_values import json_digest

Labels = Mapping[str, Mapping[str, float]]
"""Labels from 0 to 1 by dimension, by a digest of what was shown."""


class PeopleAgreement(FrozenValue, frozen=True):
    """How the labels of one dimension in two files agree: a judge can hardly agree better with either.

    ``file`` is the other one, ``examples`` those that both label, ``alpha`` Krippendorff's of interval data,
    None where it is not defined, ``difference`` the mean absolute difference, 0 to 1.
    """

    file: str
    dimension: str
    examples: int
    alpha: float | None
    difference: float


def agreement_with_others(file: Path, rubric: Rubric) -> Iterator[PeopleAgreement]:
    """Compare a file of labels with others of its folder that are named like the rubric too.

    A file that cannot be read is passed over, and so is one without an example in common.
    """
    mine = _labels(file, rubric)
    for other in sorted(file.parent.glob(f"{rubric.name}*{file.suffix}")) if mine else ():
        theirs = {} if other.name == file.name else _labels(other, rubric)
        for name in rubric.names:
            pairs = [
                (mine[shown][name], theirs[shown][name])
                for shown in mine.keys() & theirs.keys()
                if name in mine[shown] and name in theirs[shown]
            ]
            if pairs:
                difference = mean_absolute_error(pairs)
                yield PeopleAgreement(other.name, name, len(pairs), _alpha(pairs), difference)


def _labels(file: Path, rubric: Rubric) -> Labels:
    try:
        examples = read_labels_so_far(file, rubric, ZERO_TO_ONE)
    except (ProblemsFound, OSError):
        return {}
    return {json_digest(dict(example.values)): example.labels for example in examples}


def _alpha(pairs: list[tuple[float, float]]) -> float | None:
    try:
        return krippendorff_alpha(pairs)
    except UndefinedStatistic:
        return None

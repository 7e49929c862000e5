"""A file of labels that a person's answers go into, on disk with each answer; and how people agree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_agenteval.calibration.labels import (
    JSON_LINES,
    ZERO_TO_ONE,
    Scale,
    read_label_rows,
    read_labels_so_far,
)
from pytest_agenteval.compare.scoring.agreement import krippendorff_alpha, mean_absolute_error
from pytest_agenteval.graders.judge.rubric import Rubric
from pytest_agenteval.processes.files import file_lock, replacing
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.text.errors import ProblemsFound, UndefinedStatistic, UsageMistake
from pytest_agenteval.text.json_values import json_digest
from pytest_agenteval.text.redaction import KNOWN_SECRETS

Labels = Mapping[str, Mapping[str, float]]
"""Labels from 0 to 1 by dimension, by a digest of what was shown."""


class PersonLabels(FrozenValue, frozen=True):
    """What one person says of one example: a number for each dimension answered, None for "cannot tell".

    Numbers are on the scale of the file that the person writes.
    """

    scores: Mapping[str, float | None] = NOTHING
    note: str = ""


NO_LABELS = PersonLabels()


class LabelFile:
    """The labels of one person by one rubric, as ``agenteval calibrate`` reads them.

    Each write replaces the whole file at once, so that no crash leaves half a line. ``scale`` is what new
    labels are on; each line holds its own.
    """

    def __init__(self, path: Path, rubric: Rubric, scale: Scale, labeller: str = "") -> None:
        self.path, self.scale, self.labeller, self._rubric = path, scale, labeller, rubric
        # Calibrations read CSV files too, but those have no column for the scale, which each line here holds.
        if path.suffix.lower() not in JSON_LINES:
            raise UsageMistake(f"{path}: expected a file of labels that ends in .jsonl")
        self._by_id: dict[str, PersonLabels] = {}
        self._ids: dict[str, str] = {}
        self._read()

    def id_for(self, id: str, values: Mapping[str, str]) -> str:
        """Give the id under which these values stand in the file: that of an equal example, else ``id``."""
        # The file holds texts without secrets, so equal examples are found only if these are cleaned too.
        return self._ids.get(json_digest(KNOWN_SECRETS.value(values)), id)

    def labels_of(self, id: str) -> PersonLabels:
        """Give the labels of an example; none where the file does not have it."""
        return self._by_id.get(id, NO_LABELS)

    def write(self, id: str, values: Mapping[str, str], labels: PersonLabels) -> None:
        """Put an example's labels on disk, and return when they are there."""
        output = self._rubric.output
        shown = {name: text for name, text in values.items() if name != output}
        fields: dict[str, Any] = {
            "id": id,
            "input": shown,
            "output": values[output],
            "scores": dict(labels.scores),
            "scale": list(self.scale),
            "label_source": "human",
        }
        fields |= {"labeller": self.labeller} if self.labeller else {}
        fields |= {"note": labels.note} if labels.note else {}
        text = json.dumps(KNOWN_SECRETS.value(fields), ensure_ascii=False)
        # A model may reply half of a surrogate pair, which UTF-8 cannot hold: it is written as JSON's escape.
        line = text.encode(errors="backslashreplace")
        with _as_usage_mistakes(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Two terminals may label into one file at the same time, and neither may lose a label.
            with file_lock(self.path):
                # From disk and not from memory: the person may have changed the file by hand since.
                lines = self.path.read_bytes().splitlines() if self.path.exists() else []
                place = next((at for at, old in enumerate(lines) if _id_in(old) == id), len(lines))
                lines[place : place + 1] = [line]
                with replacing(self.path) as beside:
                    beside.write_bytes(b"".join(each + b"\n" for each in lines))
        self._by_id[id] = labels
        self._ids[json_digest(KNOWN_SECRETS.value(values))] = id

    def _read(self) -> None:
        """Read what the file holds; raises ProblemsFound where calibrate could not read it either."""
        if not self.path.exists():
            return
        # Read twice: this call raises every problem, but its labels are on 0 to 1 and lack "cannot tell".
        read_labels_so_far(self.path, self._rubric, ZERO_TO_ONE)
        rows = [row.parts for row in read_label_rows(self.path, self._rubric, [])]
        # How far two people agree can be measured only as long as each has a file of their own.
        others = {row.get("labeller", "") for row in rows} - {self.labeller}
        if others:
            names = ", ".join(sorted(name or "somebody unnamed" for name in others))
            hint = "put yours into another file, with --labeller NAME or -o FILE"
            raise UsageMistake(f"{self.path} holds labels of {names}; {hint}")
        for row in rows:
            # Lines in a shorter form, which people may write by hand, stay in the file but are not found.
            if "id" in row and isinstance(row.get("input"), Mapping):
                scale = tuple(row.get("scale", ZERO_TO_ONE))
                scores = {name: self._on_scale(score, scale) for name, score in row["scores"].items()}
                self._by_id[row["id"]] = PersonLabels(scores, row.get("note", ""))
                self._ids[json_digest({**row["input"], self._rubric.output: row["output"]})] = row["id"]

    def _on_scale(self, score: float | None, scale: Scale) -> float | None:
        if score is None or scale == self.scale:
            return score
        (low, high), (new_low, new_high) = scale, self.scale
        return new_low + (score - low) / (high - low) * (new_high - new_low)


def _id_in(line: bytes) -> Any:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row.get("id") if isinstance(row, dict) else None


@contextmanager
def _as_usage_mistakes(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        raise UsageMistake(f"{path}: labels cannot be written there ({refused.strerror})") from None


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
    """Compare a file of labels with others of its folder whose names begin with the rubric's.

    A file that cannot be read is skipped, and so is one without an example in common.
    """
    mine = _labels_by_content(file, rubric)
    for other in sorted(file.parent.glob(f"{rubric.name}*{file.suffix}")) if mine else ():
        # By content: an example without an id is named by its line, which differs from file to file.
        theirs = {} if other.name == file.name else _labels_by_content(other, rubric)
        for name in rubric.names:
            pairs = [
                (mine[shown][name], theirs[shown][name])
                for shown in mine.keys() & theirs.keys()
                if name in mine[shown] and name in theirs[shown]
            ]
            if pairs:
                difference = mean_absolute_error(pairs)
                yield PeopleAgreement(other.name, name, len(pairs), _krippendorff_alpha(pairs), difference)


def _labels_by_content(file: Path, rubric: Rubric) -> Labels:
    try:
        examples = read_labels_so_far(file, rubric, ZERO_TO_ONE)
    except (ProblemsFound, OSError):
        return {}
    return {json_digest(dict(example.values)): example.labels for example in examples}


def _krippendorff_alpha(pairs: list[tuple[float, float]]) -> float | None:
    try:
        return krippendorff_alpha(pairs)
    except UndefinedStatistic:
        return None

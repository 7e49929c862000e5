"""What authors write to have judges compared with labels: one YAML file for each calibration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from pytest_agenteval.errors import ProblemsFound
from pytest_agenteval.tasks.documents import Document, read_document, short_path
from pytest_agenteval.tasks.field_types import Count, Named, Number, Positive, Share, Spec, Tag, Text
from pytest_agenteval.tasks.load import schema_of
from pytest_agenteval.tasks.validation_errors import explain

Threshold = Annotated[
    Number | Mapping[Text, Number],
    Field(description="a number, or a map with a number for each dimension"),
]


def _rising(scale: tuple[float, float]) -> tuple[float, float]:
    if scale[0] < scale[1]:
        return scale
    raise PydanticCustomError("scale", "not rising")


class Calibration(Spec):
    """How judges are compared with labels: which labels, by which rubric, and how well they have to agree."""

    kind: Literal["calibration"] = Field(description="calibration")
    id: Annotated[Text, Field(pattern=r"^[^\s/\\:\[\]]+$")] = Field(
        description="a text with no space, slash, colon or bracket"
    )
    description: Text = Field(default="", description="a text: what is measured")
    labels: Named = Field(description="the path of a file of labels, .jsonl or .csv, from this file's folder")
    rubric: Named = Field(
        description="the name of a registered rubric, or the path of a .jinja file from this file's folder"
    )
    repeats: Count = Field(default=1, description="a whole number, 1 or more: asks of each judge per example")
    tolerance: Positive = Field(
        default=0.15, description="a number above 0: how far from its label a score agrees with it, of 0 to 1"
    )
    scale: Annotated[tuple[Number, Number], AfterValidator(_rising)] = Field(
        default=(0.0, 1.0), description="a list of two numbers: the lowest label that can be and the highest"
    )
    pass_threshold: Share = Field(
        default=0.6, description="a number from 0 to 1: the score at which an example passes"
    )
    thresholds: Mapping[Text, Threshold] = Field(
        default_factory=dict,
        description="a map from figures to the number to reach, for all dimensions or for each by name; "
        "scored: how many examples have to have a score (where it is not said: half of them)",
    )
    seed: Annotated[int, Field(strict=True, ge=0)] = Field(
        default=0, description="a whole number, 0 or more: the seed of the intervals"
    )
    tags: tuple[Tag, ...] = Field(default=(), description="a list of texts without spaces")


def load_calibration(path: Path) -> tuple[Calibration, Document]:
    """Read a calibration file, or raise every problem in it; the document knows the lines of its keys."""
    document = read_document(path)
    try:
        return Calibration.model_validate(document.value), document
    except ValidationError as error:
        raise ProblemsFound(explain(error, document, short_path(path), (), schema_of(Calibration))) from None

"""Labelled examples: what judges are shown, the scores they are compared with, and what judges said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from pytest_agenteval.graders.judge.verdicts import Judgement
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.records.transcript import Usage

LabelSource = Literal["human", "constructed"]
SOURCES: tuple[LabelSource, ...] = get_args(LabelSource)


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
        """What is judged."""
        return self.values[self.output]

    @property
    def given(self) -> Mapping[str, str]:
        """What else the judge is shown."""
        return {name: value for name, value in self.values.items() if name != self.output}


class ExampleJudgement(FrozenValue, frozen=True):
    """One example, asked about once: all judges side by side. ``repetition`` counts from 1."""

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

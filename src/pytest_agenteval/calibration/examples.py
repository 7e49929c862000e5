"""Labelled examples: what judges are shown, and the scores that they are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

LabelSource = Literal["human", "constructed"]
SOURCES: tuple[LabelSource, ...] = get_args(LabelSource)


@dataclass(frozen=True, slots=True)
class Example:
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


def said_sources(examples: Iterable[Example]) -> str:
    """Say how many examples there are and where their labels come from: ``70 constructed labels``."""
    counts = Counter(example.source for example in examples)
    named = [f"{counts[source]} {source}" for source in SOURCES if counts[source]]
    number = counts.total()
    return f"{' and '.join(named)} {'label' if number == 1 else 'labels'}" if named else "no labels"

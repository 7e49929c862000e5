"""Precision, recall and F1 of decisions: to act where it is called for, and to leave alone what is not.

The positive class is acting. None where there is nothing to divide by: 0 would say that all were wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pytest_agenteval.records.record import FrozenValue


class Classification(FrozenValue, frozen=True):
    """How decisions met their labels, in counts.

    ``true_positives`` acted and should have, ``false_positives`` acted and should not have,
    ``false_negatives`` did not act and should have, ``true_negatives`` did not and should not have.
    ``unknown`` have a label, and nobody knows what was decided: they are in no figure.
    """

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    true_negatives: int = 0
    unknown: int = 0

    @property
    def decided(self) -> int:
        """How many decisions the figures are over."""
        positives = self.true_positives + self.false_positives
        return positives + self.false_negatives + self.true_negatives

    @property
    def precision(self) -> float | None:
        """The share of acts that were called for, TP / (TP + FP); None where nobody acted."""
        return _share(self.true_positives, self.true_positives + self.false_positives)

    @property
    def recall(self) -> float | None:
        """The share of calls to act that were followed, TP / (TP + FN); None where nothing called for it."""
        return _share(self.true_positives, self.true_positives + self.false_negatives)

    @property
    def f1(self) -> float | None:
        """The harmonic mean of both, 2 TP / (2 TP + FP + FN): 0 to 1 (van Rijsbergen 1979, with beta 1).

        None where nobody acted and nothing called for it; 0 where only one of the two is not defined.
        """
        doubled = 2 * self.true_positives
        return _share(doubled, doubled + self.false_positives + self.false_negatives)

    @property
    def accuracy(self) -> float | None:
        """The share of decisions that were right, (TP + TN) of all; None where there is none."""
        return _share(self.true_positives + self.true_negatives, self.decided)


def classify(decisions: Iterable[tuple[bool, bool | None]]) -> Classification:
    """Count pairs of whether an agent should act and whether it did, None where that is not known."""
    counts = Counter(decisions)
    return Classification(
        true_positives=counts[True, True],
        false_positives=counts[False, True],
        false_negatives=counts[True, False],
        true_negatives=counts[False, False],
        unknown=counts[True, None] + counts[False, None],
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None

"""Figures over trials and tasks: means, pass rates, broken tasks, precision and recall."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import FrozenValue


def trial_score(grades: Iterable[tuple[float | None, float]]) -> float | None:
    """Give the mean of the decided scores, each counted by its weight, or None when there is none.

    ``grades`` holds pairs of score, 0..1 or None for undecided, and weight above 0: Σ weight·score / Σ weight
    (design.md, section 2).
    """
    decided = [(score, weight) for score, weight in grades if score is not None]
    if not decided:
        return None
    # fsum rounds once, so that the order of the grades does not matter.
    whole = math.fsum(weight for _, weight in decided)
    mean = math.fsum(weight * score for score, weight in decided) / whole
    return _between(mean, [score for score, _ in decided])


def mean_score(scores: Iterable[float | None]) -> float | None:
    """Give the plain mean of the decided scores, or None when there is none."""
    decided = decided_scores(scores)
    return _between(math.fsum(decided) / len(decided), decided) if decided else None


def decided_scores(scores: Iterable[float | None]) -> list[float]:
    """Give the scores that are not None, in their order."""
    return [score for score in scores if score is not None]


def _between(mean: float, scores: list[float]) -> float:
    """Undo what rounding adds: the mean of 0.7, 0.7 and 0.7 reaches a threshold of 0.7."""
    return min(max(mean, min(scores)), max(scores))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate, without bias, how likely at least one of ``k`` trials passes, when ``c`` of ``n`` did.

    1 - C(n-c, k) / C(n, k): the share of all choices of k trials that hold a passing one
    (Chen et al. 2021, "Evaluating Large Language Models Trained on Code").
    0 where k is more than n: it cannot be estimated.
    """
    choices = math.comb(n, k)
    # Whole numbers are subtracted, which is exact: 1 less a quotient is not.
    return (choices - math.comb(n - c, k)) / choices if choices else 0.0


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Estimate, without bias, how likely ``k`` trials all pass, when ``c`` of ``n`` did.

    C(c, k) / C(n, k): the share of all choices of k trials that hold passing ones only (Yao et al.
    2024, "τ-bench"). k is from 1 to n.
    """
    return math.comb(c, k) / math.comb(n, k)


def task_passed(
    kind: Kind, passes: Iterable[bool | None], scores: Iterable[float | None] = (), threshold: float = 1.0
) -> bool | None:
    """Say whether a task passed, given the results of its trials, or None when none is decided.

    With a threshold of 1 the kind decides: a capability task needs one passing trial, a regression or mixed
    task needs all. With a threshold below 1 the scores decide, whatever the kind: their mean must reach it,
    give or take rounding.
    """
    if threshold < 1:
        mean = mean_score(scores)
        return None if mean is None else mean >= threshold - ROUNDING
    decided = [passed for passed in passes if passed is not None]
    if not decided:
        return None
    return any(decided) if kind == "capability" else all(decided)


def pass_rate(passes: Iterable[bool | None]) -> float | None:
    """Give the share of trials (or tasks) that passed, over those decided; None when there is none."""
    decided = [passed for passed in passes if passed is not None]
    return sum(decided) / len(decided) if decided else None


# Whether each trial of one task passed, in the old run and in the new one.
PairedPasses: TypeAlias = tuple[Sequence[bool], Sequence[bool]]

# The fewest trials on each side. With two, most comparisons of some 40 tasks would name one that did not
# change at all.
LEAST_TRIALS = 3


def is_broken(old: Sequence[bool], new: Sequence[bool]) -> bool:
    """Whether all old trials passed and no new one did, with at least 3 trials on either side."""
    return min(len(old), len(new)) >= LEAST_TRIALS and all(old) and not any(new)


def expected_broken(tasks: Iterable[PairedPasses]) -> float:
    """Give how many tasks would be broken, 0 or more, if nothing had changed at all.

    There are comb(old + new, old) ways to call a task's trials old and new. Exactly one of them breaks the
    task, provided that as many trials passed as there are old ones. Over comparisons that change nothing the
    mean is right, whatever the tasks' rates of passing are. Tasks with fewer than 3 trials on a side add
    nothing.
    """
    chances = (
        1 / math.comb(len(old) + len(new), len(old))
        for old, new in tasks
        if min(len(old), len(new)) >= LEAST_TRIALS and sum(old) + sum(new) == len(old)
    )
    return math.fsum(chances)


class Classification(FrozenValue, frozen=True):
    """How decisions met their labels, in counts.

    ``true_positives`` acted and should have, ``false_positives`` acted and should not have,
    ``false_negatives`` did not act and should have, ``true_negatives`` did not and should not have.
    ``unknown`` have a label, and their decision is unknown: they are in no figure.
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

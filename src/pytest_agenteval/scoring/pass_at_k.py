"""What the repetitions of a task say together: pass@k, pass^k, whether the task passed.

An undecided or errored trial is None here and is left out of every rate: it says nothing about
the agent. Callers who want it counted as not passed give False.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import comb

from pytest_agenteval.records.plan import Kind
from pytest_agenteval.scoring.trial_score import checked_score, mean_score

ROUNDING = 1e-9


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate, without bias, how likely at least one of ``k`` trials passes, when ``c`` of ``n`` did.

    1 - C(n-c, k) / C(n, k): the share of all choices of k trials that hold a passing one
    (Chen et al. 2021, "Evaluating Large Language Models Trained on Code").
    0 when k <= 0, n = 0 or k > n, 1 when fewer than k trials missed. Never None: with k > n the 0
    means "cannot be estimated", so choose k from 1..n. Raises ValueError unless 0 <= c <= n.
    """
    _check_counts(n, c)
    if not 0 < k <= n:
        return 0.0
    choices = comb(n, k)
    return (choices - comb(n - c, k)) / choices


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Estimate, without bias, how likely ``k`` trials all pass, when ``c`` of ``n`` did.

    C(c, k) / C(n, k): the share of all choices of k trials that hold passing ones only (Yao et al.
    2024, "τ-bench"). 0 when k <= 0, n = 0 or k > n. Never None. Raises ValueError unless 0 <= c <= n.
    """
    _check_counts(n, c)
    return comb(c, k) / comb(n, k) if 0 < k <= n else 0.0


def task_passed(
    kind: Kind,
    passes: Iterable[bool | None],
    scores: Iterable[float | None] | None = None,
    threshold: float = 1.0,
) -> bool | None:
    """Say whether a task passed, given what became of its trials, or None when none is decided.

    With a threshold of 1 the kind decides: a capability task needs one passing trial, a regression or
    mixed task needs all. A threshold below 1 asks about the scores instead, whatever the kind: their mean
    must reach it, give or take rounding. Raises ValueError for an unknown kind, a threshold outside 0..1,
    or one below 1 without scores.
    """
    if kind not in {"capability", "regression", "mixed"}:
        raise ValueError(f"a kind is capability, regression or mixed, not {kind!r}")
    if checked_score(threshold) < 1:
        return _mean_reaches(threshold, scores)
    known = [passed for passed in passes if passed is not None]
    if not known:
        return None
    return any(known) if kind == "capability" else all(known)


def pass_rate(passes: Iterable[bool | None]) -> float | None:
    """Give the share of trials (or tasks) that passed, over those decided; None when there is none."""
    known = [passed for passed in passes if passed is not None]
    return sum(known) / len(known) if known else None


def _mean_reaches(threshold: float, scores: Iterable[float | None] | None) -> bool | None:
    if scores is None:
        raise ValueError("a threshold below 1 asks about the mean score: scores are needed")
    mean = mean_score(scores)
    return None if mean is None else mean >= threshold - ROUNDING


def _check_counts(n: int, c: int) -> None:
    if not 0 <= c <= n:
        raise ValueError(f"of {n} trials, {c} cannot have passed")

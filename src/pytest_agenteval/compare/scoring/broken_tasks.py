"""Tasks that every trial passed before and none passes now, and how many of them chance alone makes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

PairedPasses: TypeAlias = tuple[Sequence[bool], Sequence[bool]]
"""Whether each trial of one task passed, old and new."""

LEAST_TRIALS = 3
"""On both sides: with two, most comparisons of some 40 tasks would name one that did not change at all."""


def is_broken(old: Sequence[bool], new: Sequence[bool]) -> bool:
    """Say whether all old trials passed and no new one, with at least 3 trials on either side."""
    return min(len(old), len(new)) >= LEAST_TRIALS and all(old) and not any(new)


def expected_broken(tasks: Iterable[PairedPasses]) -> float:
    """Give how many tasks would be broken, 0 or more, if nothing had changed at all.

    Of the ways to call a task's trials old and new exactly one breaks it, provided that as many passed as
    there are old ones: one of ``comb(old + new, old)``. Over comparisons that change nothing the mean is
    right, whatever the tasks' rates of passing are. Tasks with fewer than 3 trials on a side add nothing.
    """
    return math.fsum(_chance(len(old), len(new), sum(old) + sum(new)) for old, new in tasks)


def _chance(old: int, new: int, passed: int) -> float:
    if min(old, new) < LEAST_TRIALS or passed != old:
        return 0.0
    return 1 / math.comb(old + new, old)

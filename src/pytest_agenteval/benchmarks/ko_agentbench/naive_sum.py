"""Adding numbers one after the other, as figures were added that ours are laid beside."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add


def naive_sum(numbers: Iterable[float]) -> float:
    """Give the sum as repeated addition gives it, to the last digit.

    From Python 3.12 on ``sum`` makes up for what rounding loses, and so differs from published figures.
    """
    return reduce(add, numbers, 0)

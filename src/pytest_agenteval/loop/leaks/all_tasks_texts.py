"""How many tasks hold a text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate


class AllTasksTexts:
    """The compact texts of all tasks, one behind the other: to look through one long text is quick."""

    def __init__(self, texts: Iterable[str]) -> None:
        every = list(texts)
        self._whole = "\n".join(every)
        self._starts = list(accumulate((len(text) + 1 for text in every[:-1]), initial=0))

    def is_shared(self, value: str, tasks: int) -> bool:
        """Whether so many tasks, or more, hold a compact text."""
        place, count = self._whole.find(value), 0
        while place >= 0:
            count += 1
            behind = bisect_right(self._starts, place)
            if count == tasks or behind == len(self._starts):
                break
            place = self._whole.find(value, self._starts[behind])
        return count == tasks

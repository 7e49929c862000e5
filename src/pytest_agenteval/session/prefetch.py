"""Which items this process will run next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import pytest


def upcoming_items(session: pytest.Session) -> UpcomingItems:
    """Give the look ahead that fits the process: an xdist worker is told its items bit by bit."""
    for plugin in session.config.pluginmanager.get_plugins():
        if hasattr(plugin, "torun") and hasattr(plugin, "nextitem_index"):
            return WorkerUpcomingItems(session, plugin)
    return UpcomingItems(session)


class UpcomingItems:
    """Looks ahead over a session's items, each of which is seen once."""

    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._next = 0

    def next(self, most: int) -> Sequence[pytest.Item]:
        """Give at most so many items that were not given before, in the order in which they will run."""
        found = self._session.items[self._next : self._next + most]
        self._next += len(found)
        return found


class WorkerUpcomingItems(UpcomingItems):
    """Looks ahead over what the controller has sent to this worker so far."""

    def __init__(self, session: pytest.Session, interactor: Any) -> None:
        super().__init__(session)
        self._interactor = interactor
        self._seen: set[int] = set()

    def next(self, most: int) -> Sequence[pytest.Item]:
        """Give at most so many items that were not given before, in the order in which they will run."""
        worker = self._interactor
        with worker.torun.lock() as queue:
            queued = [index for index in queue if isinstance(index, int)]
        indices = [worker.item_index, worker.nextitem_index, *queued]
        fresh = (index for index in indices if isinstance(index, int) and index not in self._seen)
        chosen = list(islice(fresh, most))
        self._seen.update(chosen)
        return [self._session.items[index] for index in chosen]

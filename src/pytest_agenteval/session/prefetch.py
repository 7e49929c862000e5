"""Trials begin ahead of their items: which items come next, and which of their trials may begin."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pytest

from pytest_agenteval.engine.pool import Slot
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.session.fixture_readiness import FixtureReadiness
from pytest_agenteval.session.parametrization import Attempts, trial_key


class Prefetcher:
    """Begins trials in the order of their items, until a window is full.

    ``slot_of`` makes the trial of an item, or gives None where a worker that is dead has finished it. At most
    a window of trials is on its way or not yet read.
    """

    def __init__(
        self,
        config: pytest.Config,
        concurrency: int,
        attempts: Attempts,
        slot_of: Callable[[Any], Slot | None],
    ) -> None:
        self.readiness = FixtureReadiness(config)
        self._attempts, self._slot_of = attempts, slot_of
        # Wide enough that slow trials at its head hold up nobody.
        self._window = max(64, 4 * concurrency)
        self._one_by_one = _is_watched(config)
        self._slots: dict[TrialKey, Slot] = {}
        self._full = 0
        self._upcoming: UpcomingItems | None = None
        self._coming: deque[Any] = deque()

    def take(self, key: TrialKey) -> Slot | None:
        """Give a trial that was begun ahead, to the item that it belongs to."""
        return self._slots.pop(key, None)

    def begin(self, current: Any, *, waiting: bool = False) -> list[Slot]:
        """Give the trials that may begin now, as seen from the item that pytest is busy with.

        Looked for only when half of what there was after the last look has been read, or while pytest is
        ``waiting``: looking costs something each time, under xdist as much as the queue is long.
        """
        if self._one_by_one or (len(self._slots) > self._full // 2 and not waiting):
            return []
        self._look_ahead(current)
        begun: list[Slot] = []
        while self._coming and len(self._slots) < self._window:
            if not self._consider(self._coming[0], current, begun):
                break
            self._coming.popleft()
        self._full = len(self._slots)
        return begun

    def _look_ahead(self, current: Any) -> None:
        if self._upcoming is None:
            self._upcoming = upcoming_items(current.session)
        if current in self._coming:  # pytest has passed what stands before it
            while self._coming[0] is not current:
                self._coming.popleft()
        # What stands here was looked at and may not begin yet: a wider fixture has no value so far.
        self._coming.extend(self._upcoming.next(self._window - len(self._coming)))

    def _consider(self, item: Any, current: Any, begun: list[Slot]) -> bool:
        """Begin the item's trial if that may be; False where it has to be asked again later."""
        if not hasattr(item, "case"):
            return True
        key = trial_key(item)
        # Begun once already, be it by its own item: a second start would be paid for twice.
        if self._attempts.has_begun(key):
            return True
        policy = self.readiness.start_policy(item, current)
        slot = self._slot_of(item) if policy == "now" else None
        if slot is not None:
            self._slots[key] = slot
            begun.append(slot)
        return policy != "later"


def _is_watched(config: pytest.Config) -> bool:
    """Whether somebody looks at one item at a time: then nothing else runs meanwhile."""
    debugged = config.getoption("usepdb", False) or config.getoption("trace", False)
    return bool(debugged) or config.getoption("capture", "") == "no"


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
        coming = self._session.items[self._next : self._next + most]
        self._next += len(coming)
        return coming


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

"""Distributing trials under xdist: deep queues for each worker; repetitions that may not be needed wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from xdist.scheduler import LoadScheduling

from pytest_agenteval.session.run_info import has_plan
from pytest_agenteval.session.run_signals import StopBroadcaster
from pytest_agenteval.session.stash import run_info_key


class DeferredRepetitions:
    """Trials beyond the LOW of ``--repetitions=LOW..HIGH``, by their index: waiting here, or lent to workers.

    A worker runs no test before it knows the next one, or that there is none. While it is not decided
    which trials are needed, each worker is lent one, which it skips where it is not needed.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._waiting: list[int] = []
        self.lent: set[int] = set()  # what a worker has only so that it runs the trial before
        self._collected: Sequence[str] = ()
        self.undecided = False

    def defer(self, collected: Sequence[str]) -> Collection[int]:
        """Give the indices of the trials that may not be needed, as workers have written them down."""
        from pytest_agenteval.store.run_documents import ExtraRepetitions

        extra = ExtraRepetitions.read(self._config.stash[run_info_key].folder)
        ids = {node_id for group in extra.groups for node_id in group.node_ids} if extra else set()
        self._collected = collected
        self._waiting = [index for index, name in enumerate(collected) if name in ids]
        self.undecided = bool(self._waiting)
        return frozenset(self._waiting)

    def lend_one(self) -> int | None:
        """Lend one trial, the last first; None where none is left."""
        if not self._waiting:
            return None
        index = self._waiting.pop()
        self.lent.add(index)
        return index

    def take_back(self, indices: Iterable[int]) -> Collection[int]:
        """Give which of these were lent; while nothing is decided, put them back among the waiting."""
        back = self.lent.intersection(indices)
        self.lent -= back
        if self.undecided:
            self._waiting = sorted({*self._waiting, *back})
        return back

    def decide(self) -> list[int]:
        """Decide which trials are needed, and give those that no worker has yet."""
        from pytest_agenteval.session.adaptive_repetitions import look_at_first_repetitions

        dropped = look_at_first_repetitions(self._config)
        self.undecided = False
        self.lent = {index for index in self.lent if self._collected[index] in dropped}
        session = self._config.pluginmanager.get_plugin("session")
        if session is not None:
            session.testscollected -= len(dropped)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and dropped:
            # Counted as pytest counts deselected items, of which its controller has none.
            unneeded = [SimpleNamespace(nodeid=node_id) for node_id in sorted(dropped)]
            reporter.stats.setdefault("deselected", []).extend(unneeded)
        return [index for index in self._waiting if self._collected[index] not in dropped]


# The pattern of the node ids of trials: the controller knows nothing else about them.
TRIAL = re.compile(r"\.(?:json|ya?ml)::[^\[]+\[.*-\d+\]$")

DEPTH = 32  # the least depth of a queue that keeps a worker busy with quick trials


class DepthScheduling(LoadScheduling):  # type: ignore[misc]  # xdist's class is not typed
    """Queues more trials at each worker than it can run at once.

    Tests that are not trials go first, in the chunks of xdist's own ``load``.
    """

    def __init__(self, config: pytest.Config, log: Any, concurrency: int) -> None:
        super().__init__(config, log)
        self._concurrency = concurrency
        self._depth = max(DEPTH, 2 * concurrency)
        self._trials: list[int] = []
        self._deferred = DeferredRepetitions(config)
        self._has_started = False

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left to be sent and at most the last test of each worker is running."""
        return not self._trials and not self._deferred.undecided and bool(super().tests_finished)

    @property
    def has_pending(self) -> bool:
        return bool(self._trials or self._deferred.undecided) or bool(super().has_pending)

    def schedule(self) -> None:
        """Share out the first tests, or look at every worker again."""
        # ``has_plan`` is checked too: tests of another plugin may have node ids that look like those of
        # trials.
        if self.collection is None and has_plan(self.config) and self._check_nodes_have_same_collection():
            collected = next(iter(self.node2collection.values()))
            self._trials = [index for index, name in enumerate(collected) if TRIAL.search(name)]
            if self._trials:
                deferred = self._deferred.defer(collected)
                self._trials = [index for index in self._trials if index not in deferred]
                self._share_out(collected, deferred)
                return
        super().schedule()

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        if node.shutting_down:
            return
        ours = self._trials or self._deferred.undecided
        if self.pending or not ours:
            super().check_schedule(node, duration)
        if not self.pending and ours:
            queued = len(self.node2pending[node])
            # Near the end every worker gets a share: a deep queue at one of them would leave others idle.
            all_queued = sum(map(len, self.node2pending.values()))
            share = (len(self._trials) + all_queued) // max(1, len(self.node2pending))
            depth = max(2, min(self._depth, max(self._concurrency + 1, share // 2), share))
            if queued <= depth // 2:
                chosen = self._trials[: depth - queued]
                del self._trials[: len(chosen)]
                self._queue(node, chosen)
            if self._deferred.undecided:
                self._keep_going(node)
            elif not self._trials:
                # A worker does not run its last test until it knows the next one, or that there is none.
                for other in self.nodes:
                    other.shutdown()

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Note that a worker has finished a test, perhaps the last one before the look at repetitions."""
        self._deferred.take_back([item_index])  # a worker skips a lent trial that is not decided yet
        super().mark_test_complete(node, item_index, duration)
        self._look_when_due()

    def mark_test_pending(self, item: str) -> None:
        """Take a test back, to be run again."""
        assert self.collection is not None
        if self._has_started and TRIAL.search(item):
            self._trials.insert(0, self.collection.index(item))
            for node in self.node2pending:
                self.check_schedule(node)
        else:
            super().mark_test_pending(item)

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker; its queue goes to the others, except the test that it was running."""
        waiting = self._deferred.take_back(self.node2pending[node])
        pending = [index for index in self.node2pending[node] if index not in waiting]
        collection = self.collection or []
        # These are taken out first: xdist would send them in chunks, as it does with other tests.
        rest = [index for index in pending[1:] if self._has_started and TRIAL.search(collection[index])]
        self.node2pending[node] = [index for index in pending if index not in rest]
        self._trials = rest + self._trials
        crashed: str | None = super().remove_node(node)
        self._look_when_due()
        return crashed

    def _share_out(self, collected: list[str], deferred: Collection[int]) -> None:
        trials, self.collection, self._has_started = {*self._trials, *deferred}, collected, True
        folder = self.config.stash[run_info_key].folder
        self.config.pluginmanager.register(StopBroadcaster(self.config, folder))
        self.pending[:] = [index for index in range(len(collected)) if index not in trials]
        most: int = self.config.getoption("maxschedchunk") or len(self.pending)
        self.maxschedchunk = most
        nodes, few = self.nodes, len(self.pending) < 2 * len(self.nodes)
        if few:
            for number in range(len(self.pending)):
                self._send_tests(nodes[number % len(nodes)], 1)
        elif self.pending:  # other tests go as ``load`` sends them at the start
            chunk = max(min(len(self.pending) // len(nodes) // 4, most), 2)
            for node in nodes:
                self._send_tests(node, chunk)
        if self.pending:
            return
        # With so few trials, the first worker would otherwise get most of them.
        if len(self._trials) < 2 * len(self.nodes):
            for node in self.nodes:
                chosen, self._trials = self._trials[:1], self._trials[1:]
                self._queue(node, chosen)
        for node in self.nodes:
            self.check_schedule(node)

    def _keep_going(self, node: Any) -> None:
        """Lend a worker without other trials a deferred one: it runs the test before it, and then waits."""
        if self._trials or not self._deferred.lent.isdisjoint(self.node2pending[node]):
            return
        given = self._deferred.lend_one()
        if given is None:
            node.shutdown()
        else:
            self._queue(node, [given])

    def _look_when_due(self) -> None:
        """Decide about the extra trials once all others have ended, and go on with those that are needed."""
        session = self.config.pluginmanager.get_plugin("session")
        stopping = session is not None and (session.shouldfail or session.shouldstop)
        if stopping or not self._deferred.undecided or self._trials or self.pending or not self.node2pending:
            return
        queued = (index for pending in self.node2pending.values() for index in pending)
        if self._deferred.lent.issuperset(queued):
            self._trials = self._deferred.decide()
            for node in self.nodes:
                self.check_schedule(node)

    def _queue(self, node: Any, chosen: list[int]) -> None:
        if chosen:
            self.node2pending[node].extend(chosen)
            # A worker may have died before xdist notices; xdist then gives its items to others.
            with suppress(OSError):
                node.send_runtest_some(chosen)


def scheduler(config: pytest.Config, log: Any, concurrency: Callable[[], int]) -> DepthScheduling | None:
    """Give our scheduler for ``--dist load``; every other way of sharing is xdist's own."""
    if config.getvalue("dist") != "load":
        return None
    return DepthScheduling(config, log, concurrency())

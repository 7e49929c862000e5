"""Distributing trials under xdist: deep queues for each worker."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from xdist.scheduler import LoadScheduling

from pytest_agenteval.session.run_info import has_plan
from pytest_agenteval.session.run_signals import StopBroadcaster
from pytest_agenteval.session.stash import run_info_key

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
        self._has_started = False

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left to be sent and at most the last test of each worker is running."""
        return not self._trials and bool(super().tests_finished)

    @property
    def has_pending(self) -> bool:
        return bool(self._trials) or bool(super().has_pending)

    def schedule(self) -> None:
        """Share out the first tests, or look at every worker again."""
        # ``has_plan`` is checked too: tests of another plugin may have node ids that look like those of
        # trials.
        if self.collection is None and has_plan(self.config) and self._check_nodes_have_same_collection():
            collected = next(iter(self.node2collection.values()))
            self._trials = [index for index, name in enumerate(collected) if TRIAL.search(name)]
            if self._trials:
                self._share_out(collected)
                return
        super().schedule()

    def check_schedule(self, node: Any, duration: float = 0) -> None:
        if node.shutting_down:
            return
        if self.pending or not self._trials:
            super().check_schedule(node, duration)
        if not self.pending and self._trials:
            queued = len(self.node2pending[node])
            # Near the end every worker gets a share: a deep queue at one of them would leave others idle.
            all_queued = sum(map(len, self.node2pending.values()))
            share = (len(self._trials) + all_queued) // max(1, len(self.node2pending))
            depth = max(2, min(self._depth, max(self._concurrency + 1, share // 2), share))
            if queued <= depth // 2:
                chosen = self._trials[: depth - queued]
                del self._trials[: len(chosen)]
                self._queue(node, chosen)
            if not self._trials:
                # A worker does not run its last test until it knows the next one, or that there is none.
                for other in self.nodes:
                    other.shutdown()

    def remove_node(self, node: Any) -> str | None:
        """Forget a worker; its queue goes to the others, except the test that it was running."""
        pending, collection = self.node2pending[node], self.collection or []
        # These are taken out first: xdist would send them in chunks, as it does with other tests.
        rest = [index for index in pending[1:] if self._has_started and TRIAL.search(collection[index])]
        self.node2pending[node] = [index for index in pending if index not in rest]
        self._trials = rest + self._trials
        crashed: str | None = super().remove_node(node)
        return crashed

    def _share_out(self, collected: list[str]) -> None:
        trials, self.collection, self._has_started = set(self._trials), collected, True
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

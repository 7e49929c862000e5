"""Trials that xdist's controller holds back until it is known who needs them: it knows node ids alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import pytest

from pytest_agenteval.session.stash import run_info_key


class DroppedTrial:
    """A trial that was not needed, as pytest counts deselected items, of which its controller has none."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


class HeldBackTrials:
    """Trials that may not be needed, by their index: kept, or given to workers so that these go on.

    A worker runs no test before it knows which comes next, or that none does: while it is not known who is
    needed, each is given one, which it drops itself where that is not needed.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._kept: list[int] = []
        self._given: set[int] = set()
        self._collected: Sequence[str] = ()
        self.undecided = False

    def hold_back(self, collected: Sequence[str]) -> Collection[int]:
        """Give the indices of what may not be needed, by what workers have written down."""
        from pytest_agenteval.store.repetitions import read_extra

        extra = read_extra(self._config.stash[run_info_key].folder)
        ids = {node_id for group in extra.groups for node_id in group.node_ids} if extra else set()
        self._collected = collected
        self._kept = [index for index, name in enumerate(collected) if name in ids]
        self.undecided = bool(self._kept)
        return frozenset(self._kept)

    def is_given(self, index: int) -> bool:
        """Whether a worker has this trial for the sake of what stands before it."""
        return index in self._given

    def give_one(self) -> int | None:
        """Give one trial away, the last first; None where none is left."""
        if not self._kept:
            return None
        index = self._kept.pop()
        self._given.add(index)
        return index

    def take_back(self, indices: Iterable[int]) -> Collection[int]:
        """Give which of these will not be run by the worker that has them; what is undecided is kept."""
        back = self._given.intersection(indices)
        self._given -= back
        if self.undecided:
            self._kept = sorted({*self._kept, *back})
        return back

    def look(self) -> list[int]:
        """Decide, and give what is needed and not given to any worker yet."""
        from pytest_agenteval.session.extra_repetitions import look

        dropped = look(self._config)
        self.undecided = False
        self._given = {index for index in self._given if self._collected[index] in dropped}
        session = self._config.pluginmanager.get_plugin("session")
        if session is not None:
            session.testscollected -= len(dropped)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and dropped:
            reporter.stats.setdefault("deselected", []).extend(map(DroppedTrial, sorted(dropped)))
        return [index for index in self._kept if self._collected[index] not in dropped]

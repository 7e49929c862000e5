"""How our modules are imported under pytest, and when Python collects garbage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

OURS = "pytest_agenteval."


class OwnModuleFinder:
    """Finds our modules before ``rewriting``, pytest's finder that rewrites the asserts of all plugins.

    Our modules hold no tests. To check for each of hundreds of them whether a rewritten copy is cached takes
    a sixth of a first run; without a cache, to rewrite them takes as long as that run itself.
    """

    def __init__(self, rewriting: object) -> None:
        self.rewriting = rewriting

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of ours; any other is left to the next finder."""
        return PathFinder.find_spec(name, path, target) if name.startswith(OURS) else None


def skip_assert_rewriting(rewriting: object) -> None:
    """Put our finder right before pytest's; do nothing if pytest rewrites nothing."""
    finders: list[object] = list(sys.meta_path)
    if rewriting in finders:
        sys.meta_path.insert(finders.index(rewriting), OwnModuleFinder(rewriting))


def restore_assert_rewriting(rewriting: object) -> None:
    """Remove our finder when the pytest run that it belongs to ends."""
    for finder in list(sys.meta_path):
        if isinstance(finder, OwnModuleFinder) and finder.rewriting is rewriting:
            sys.meta_path.remove(finder)


# How many new objects there are before garbage is collected; the default is 700 or 2,000.
REDUCED_THRESHOLD = 70_000
_frozen_stages: set[str] = set()


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Switch the collector off inside: if thousands of objects are made that stay, it finds nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def garbage_collection_reduced() -> Iterator[None]:
    """Collect garbage a hundred times less often inside: for code whose objects mostly stay, but not all."""
    # Not switched off: a user's module that is imported meanwhile may leave garbage, which must not pile up.
    before = gc.get_threshold()
    # 0 means that the collector never runs.
    within = (max(before[0], REDUCED_THRESHOLD) if before[0] else 0, *before[1:])
    gc.set_threshold(*within)
    try:
        yield
    finally:
        # Otherwise a user's code has set its own threshold meanwhile.
        if gc.get_threshold() == within:
            gc.set_threshold(*before)


def freeze_once(stage: str) -> None:
    """Exempt all existing objects from garbage collection, once for each stage of a process."""
    # Modules and collected items are most of what a process holds, and live until it ends: to look through
    # them again and again takes a tenth of a run with many trials. Only once: a process that runs pytest many
    # times, as tests of plugins do, must not pile up the garbage of each run.
    if stage not in _frozen_stages:
        _frozen_stages.add(stage)
        gc.freeze()

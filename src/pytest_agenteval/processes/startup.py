"""How our modules are imported under pytest, and when Python looks for garbage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

OURS = "pytest_agenteval."


class OwnModuleFinder:
    """Finds our modules before ``rewriting`` does: pytest's finder, which rewrites asserts of all plugins.

    Our modules hold no tests. Checking for each of hundreds of them whether a rewritten copy is cached takes
    a sixth of a first run; without a cache, rewriting them takes as long as that run itself.
    """

    def __init__(self, rewriting: object) -> None:
        self.rewriting = rewriting

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of ours; any other is left to the next finder."""
        return PathFinder.find_spec(name, path, target) if name.startswith(OURS) else None


def skip_assert_rewriting(rewriting: object) -> None:
    """Put our finder right before pytest's; do nothing where pytest rewrites nothing."""
    finders: list[object] = list(sys.meta_path)
    if rewriting in finders:
        sys.meta_path.insert(finders.index(rewriting), OwnModuleFinder(rewriting))


def restore_assert_rewriting(rewriting: object) -> None:
    """Take our finder away when the pytest run that it belongs to ends."""
    for finder in list(sys.meta_path):
        if isinstance(finder, OwnModuleFinder) and finder.rewriting is rewriting:
            sys.meta_path.remove(finder)


# How many new objects there are before garbage is looked for among them; Python itself says 700 or 2,000.
REDUCED_THRESHOLD = 70_000
_frozen_stages: set[str] = set()


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Switch the collector off inside: where thousands of objects are made that stay, it finds nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def garbage_collection_reduced() -> Iterator[None]:
    """Collect garbage a hundred times more rarely inside: for code whose objects mostly stay, but not all."""
    # A user's own module that is imported meanwhile may leave garbage, which must not pile up.
    before = gc.get_threshold()
    within = (max(before[0], REDUCED_THRESHOLD) if before[0] else 0, *before[1:])  # 0: never
    gc.set_threshold(*within)
    try:
        yield
    finally:
        if gc.get_threshold() == within:  # else a user's code has set its own meanwhile
            gc.set_threshold(*before)


def freeze_once(stage: str) -> None:
    """Exempt everything that exists now from garbage collection, once for each stage of a process."""
    # Modules and collected items are most of what a process holds, and live until it ends: looking through
    # them again and again takes a tenth of a run with many trials. Once only: a process that runs pytest many
    # times, as tests of plugins do, must not pile up the garbage of each run.
    if stage not in _frozen_stages:
        _frozen_stages.add(stage)
        gc.freeze()

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

    Ours hold no tests. To ask for each of hundreds of modules whether it was rewritten before is a sixth of a
    first run; and where nothing is kept, or the machine is new, to rewrite them takes as long as that run.
    """

    def __init__(self, rewriting: object) -> None:
        self.rewriting = rewriting

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of ours; any other is left to who comes next."""
        return PathFinder.find_spec(name, path, target) if name.startswith(OURS) else None


def skip_assert_rewriting(rewriting: object) -> None:
    """Stand before pytest's finder, behind whoever stands before it; nowhere where it rewrites nothing."""
    finders: list[object] = list(sys.meta_path)
    if rewriting in finders:
        sys.meta_path.insert(finders.index(rewriting), OwnModuleFinder(rewriting))


def restore_assert_rewriting(rewriting: object) -> None:
    """Leave our modules to pytest's finder again, as the pytest run whose finder it is ends."""
    for finder in list(sys.meta_path):
        if isinstance(finder, OwnModuleFinder) and finder.rewriting is rewriting:
            sys.meta_path.remove(finder)


REDUCED_THRESHOLD = 70_000
"""How many new objects there are before garbage is looked for among them; Python itself says 700 or 2,000."""
_frozen_stages: set[str] = set()


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Look for no garbage inside: where thousands of objects are made that all stay, it finds none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def garbage_collection_reduced() -> Iterator[None]:
    """Look for garbage a hundred times more rarely inside: where most of what is made stays, but not all.

    Somebody's own module that is imported meanwhile may leave some, which must not pile up.
    """
    before = gc.get_threshold()
    within = (max(before[0], REDUCED_THRESHOLD) if before[0] else 0, *before[1:])  # 0: never
    gc.set_threshold(*within)
    try:
        yield
    finally:
        if gc.get_threshold() == within:  # else somebody has chosen otherwise meanwhile
            gc.set_threshold(*before)


def freeze_once(stage: str) -> None:
    """Keep the collector from looking through everything that is there now; once for each stage of a process.

    Modules and collected items are most of what a process holds, and live until it ends: looking through
    them again and again takes a tenth of a run with many trials. Once only: a process that runs pytest many
    times, as tests of plugins do, must not keep the garbage of each.
    """
    if stage not in _frozen_stages:
        _frozen_stages.add(stage)
        gc.freeze()

"""How our own modules are imported under pytest: as they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

OURS = "pytest_agenteval."


class OwnModules:
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


def keep_as_written(rewriting: object) -> None:
    """Stand before pytest's finder, behind whoever stands before it; nowhere where it rewrites nothing."""
    finders: list[object] = list(sys.meta_path)
    if rewriting in finders:
        sys.meta_path.insert(finders.index(rewriting), OwnModules(rewriting))


def leave_to(rewriting: object) -> None:
    """Leave our modules to pytest's finder again, as the pytest run whose finder it is ends."""
    for finder in list(sys.meta_path):
        if isinstance(finder, OwnModules) and finder.rewriting is rewriting:
            sys.meta_path.remove(finder)

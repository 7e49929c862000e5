"""What is measured, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.extended.performance.bench import Bench, Case
from tests.extended.performance.cases.house import house
from tests.extended.performance.cases.live import BRIDGE, DIRECT, LITELLM, TOOLS
from tests.extended.performance.cases.offline import FIRST, TRIALS, UNUSED, WORKERS
from tests.extended.performance.cases.stored import MEMORY, READERS, REGRADING, RESUMING
from tests.extended.performance.rows import Row

CASES: Mapping[str, Case] = {
    "unused": UNUSED,
    "first": FIRST,
    "trials": TRIALS,
    "direct": DIRECT,
    "litellm": LITELLM,
    "tools": TOOLS,
    "bridge": BRIDGE,
    "regrading": REGRADING,
    "workers": WORKERS,
    "resuming": RESUMING,
    "memory": MEMORY,
    "readers": READERS,
}
"""Those of the table."""

COUNTED: Mapping[str, Callable[[Bench], Iterator[Row]]] = {"house": house}
"""Those of the table whose figures are counted, not timed."""

QUICK = ("unused", "first", "trials", "direct", "litellm", "tools", "regrading", "resuming")
"""Those that a change is held against the state before it by, where none is named."""

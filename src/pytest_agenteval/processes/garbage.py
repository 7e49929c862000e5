"""When Python looks for garbage: not among what stays, and not while nothing but that is made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 70_000
"""How many new objects there are before garbage is looked for among them; Python itself says 700 or 2,000."""
_frozen_stages: set[str] = set()


@contextmanager
def garbage_uncollected() -> Iterator[None]:
    """Look for no garbage inside: where thousands of objects are made that all stay, it finds none."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def garbage_rarely_collected() -> Iterator[None]:
    """Look for garbage a hundred times more rarely inside: where most of what is made stays, but not all.

    Somebody's own module that is imported meanwhile may leave some, which must not pile up.
    """
    before = gc.get_threshold()
    within = (max(before[0], RARELY) if before[0] else 0, *before[1:])  # 0: never
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

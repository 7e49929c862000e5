"""Leaving out of garbage collection what lives until the end anyway."""

from __future__ import annotations

import gc

_spared: set[str] = set()


def spare(stage: str) -> None:
    """Keep the collector from looking through everything that is there now; once for each stage of a process.

    Modules and collected items are most of what a process holds, and live until it ends: looking through
    them again and again takes a tenth of a run with many trials. Once only: a process that runs pytest many
    times, as tests of plugins do, must not keep the garbage of each.
    """
    if stage not in _spared:
        _spared.add(stage)
        gc.freeze()

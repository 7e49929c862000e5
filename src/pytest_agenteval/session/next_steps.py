"""What somebody may want to type after a run: a comparison with the run before, and all of this one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.store.runs import HEADER, LATEST, ROOT, read_header

MOST_LOOKED_AT = 20
"""Runs before this one among which its like is looked for."""


def next_steps(folder: Path, here: Path) -> Iterator[str]:
    """Give commands about the run that is kept in ``folder``, to be typed in the folder ``here``."""
    runs = folder.parent.relative_to(here) if folder.is_relative_to(here) else folder.parent
    where = "" if runs == ROOT else f" --results {shlex.quote(str(runs))}"
    if earlier := _run_before(folder):
        yield f"agenteval compare {earlier} {LATEST}{where}"
    yield f"agenteval report {LATEST} -v{where}"


def _run_before(folder: Path) -> str:
    """Give the name of the newest run before this one with the same suites and models; empty without one."""
    # Names begin with the time at which a run began, and only headers that may be needed are read.
    names = sorted((path.parent.name for path in folder.parent.glob(f"*/{HEADER}")), reverse=True)
    before = [name for name in names if name < folder.name and name != LATEST][:MOST_LOOKED_AT]
    own = _likeness(folder)
    like = (name for name in before if own and _likeness(folder.with_name(name)) == own)
    return next(like, "")


def _likeness(folder: Path) -> tuple[frozenset[str], ...]:
    """Give what two runs have in common that are worth comparing; of one that has not ended nothing."""
    try:
        header = read_header(folder)
    except UsageMistake:
        return ()
    suites, models = (frozenset(part.name for part in parts) for parts in (header.suites, header.models))
    return (suites, models, frozenset(header.variants)) if header.ended_at else ()

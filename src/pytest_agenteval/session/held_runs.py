"""The file by which a run's processes say that they are at work on it: nobody else goes on with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_agenteval.processes.process_groups import is_running
from pytest_agenteval.processes.shared_state import PresenceLock
from pytest_agenteval.session.stash import held_run_key

HELD = ".held"

DEAD_WORKERS = "lost"
"""The file in a run's folder that names the workers that have died."""

LEDGERS = "budget-*.json"
"""The files in a run's folder by which its processes count what they pay."""

RATES = "rates-*.json"
"""The files in a run's folder by which its processes share the places of models."""

PATIENCE_S = 5.0
"""Seconds that the workers of a controller that was killed have to end: they need two."""


def hold_run(config: pytest.Config, folder: Path, controller: int) -> None:
    """Say, until this pytest ends, that the run is being worked on, and which process speaks for it."""
    if held_run_key not in config.stash:
        held = _held_file(config, folder)
        held.hold()
        held.write(str(controller))


def claim_run(config: pytest.Config, folder: Path) -> str:
    """Say the same of a run that nobody else is at work on; else give the process that is.

    The number that stands there is not believed, for it may be another process's by now: where that is gone,
    its workers are waited for, and what decides is whether anybody holds the file.
    """
    held = _held_file(config, folder)
    holder = held.read()
    patience = 0.0 if holder.isdecimal() and is_running(int(holder)) else PATIENCE_S
    if not held.claim(patience):
        return holder or "?"
    held.write(str(os.getpid()))
    return ""


def _held_file(config: pytest.Config, folder: Path) -> PresenceLock:
    held = config.stash[held_run_key] = PresenceLock(folder / HELD)
    config.add_cleanup(held.release)
    return held

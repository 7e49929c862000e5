"""The run that has ended, read back once for all that tell of it."""

from __future__ import annotations

import pytest

from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.store.run_folder import read_header_or_name
from pytest_agenteval.store.run_reader import Run, load_run

_ended_run: pytest.StashKey[Run] = pytest.StashKey()


def ended_run(config: pytest.Config) -> Run:
    """Give this run as it was written down, once all of its trials have ended."""
    if _ended_run not in config.stash:
        config.stash[_ended_run] = load_run(config.stash[run_info_key].folder)
    return config.stash[_ended_run]


def read_header_again(config: pytest.Config) -> None:
    """See how the run ended, now that this stands in its header; its trials are the same as before."""
    run = config.stash.get(_ended_run, None)
    if run is not None:
        run.header, _ = read_header_or_name(run.folder)


def forget_ended_run(config: pytest.Config) -> None:
    """Let go of what was read back: nobody tells of it any more."""
    if _ended_run in config.stash:
        del config.stash[_ended_run]

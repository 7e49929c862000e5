"""Where the shares of models lie: in this process, or in a file that all processes of a run change."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from pytest_agenteval.chat.rate_limiting import ledger
from pytest_agenteval.chat.rate_limiting.exchange import Report, Share, Standing
from pytest_agenteval.chat.rate_limiting.ledger import ModelState
from pytest_agenteval.processes.files import POSIX
from pytest_agenteval.processes.locked_state import LockedState
from pytest_agenteval.processes.process_table import is_running

T = TypeVar("T")
SILENT_S = 1.5
"""Seconds without a word after which a process is looked for."""
LOST_S = 60.0
"""Seconds without a word after which a process has nothing any more, wherever it is."""


class Ledger:
    """The shares of all models, in this process: for one that asks alone, or that keeps them for others."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._states: dict[str, ModelState] = {}

    def exchange(self, report: Report) -> Share:
        """Take note of what a process tells of a model, and say what it may do."""
        now = self._now()
        state = self._states.get(report.model)
        if state is None:
            state = self._states[report.model] = ledger.new_state(report, now)
        return ledger.exchange(state, report, now, _is_lost)

    def leave(self, process: str) -> None:
        """Take back all that a process has."""
        for state in self._states.values():
            ledger.leave(state, process)

    def standings(self) -> tuple[Standing, ...]:
        """Say how every model has fared that was asked."""
        now = self._now()
        return tuple(ledger.standing(model, state, now, _is_lost) for model, state in self._states.items())


class LedgerStore:
    """A ledger of this process, offered to others, on other machines too: what an actor of Ray holds."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger()

    async def exchange(self, report: Report) -> Share:
        """Take note of what a process tells of a model, and say what it may do."""
        return self.ledger.exchange(report)

    async def leave(self, process: str) -> None:
        """Take back all that a process has: it asks nothing any more."""
        self.ledger.leave(process)

    async def standings(self) -> tuple[Standing, ...]:
        """Say how every model has fared that was asked."""
        return self.ledger.standings()


class FileStore:
    """Shares in a file, for the processes of one machine; those of one that has died are taken back.

    A call may wait for another process, so it does not belong on a loop of trials.
    """

    def __init__(self, path: Path) -> None:
        self._file = LockedState(path)

    async def exchange(self, report: Report) -> Share:
        """Take note of what a process tells of a model, and say what it may do."""
        return self._file.change(lambda states: _exchange(states, report))

    async def leave(self, process: str) -> None:
        """Take back all that a process has: it asks nothing any more."""
        self._file.change(lambda states: _leave(states, process))

    async def standings(self) -> tuple[Standing, ...]:
        """Say how every model has fared that was asked."""
        return read_standings(self._file)

    def close(self) -> None:
        """Let go of the file, which stays."""
        self._file.close()


def read_standings(file: LockedState) -> tuple[Standing, ...]:
    """Say how every model has fared that the processes of a run have asked."""
    states, now = file.read(), time.monotonic()
    return tuple(ledger.standing(model, _state(data), now, _is_gone) for model, data in states.items())


def _exchange(states: dict[str, Any], report: Report) -> Share:
    # The monotonic clock is one for all processes of a machine.
    now, data = time.monotonic(), states.get(report.model)
    state = ledger.new_state(report, now) if data is None else _state(data)
    share = ledger.exchange(state, report, now, _is_gone)
    states[report.model] = msgspec.to_builtins(state)
    return share


def _leave(states: dict[str, Any], process: str) -> None:
    for model, data in states.items():
        state = _state(data)
        ledger.leave(state, process)
        states[model] = msgspec.to_builtins(state)


def _state(data: Any) -> ModelState:
    return msgspec.convert(data, ModelState)


def _is_lost(process: str, silent_s: float) -> bool:
    return silent_s > LOST_S


def _is_gone(process: str, silent_s: float) -> bool:
    """Whether a process of this machine has ended; ``process`` begins with its number."""
    if silent_s < SILENT_S:
        return False
    return silent_s > LOST_S or (POSIX and not is_running(int(process.partition(".")[0])))

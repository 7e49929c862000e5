"""What is in flight and spent, at the end of the line that pytest is writing, while it waits."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

import pytest

from pytest_agenteval.records.trial import Trial

SAVE, RESTORE, ERASE = "\x1b7", "\x1b8", "\x1b[K"
PATIENCE = 0.5
"""Seconds of waiting before anything is shown: quick trials need no words."""


class TrialTotals:
    """What this process's trials have taken so far."""

    def __init__(self) -> None:
        self.ended = 0
        self.tokens = 0
        self.cost_usd = 0.0

    def add(self, trial: Trial) -> None:
        """Count one trial, with what its judges took."""
        self.ended += 1
        for usage in (trial.usage, trial.judging):
            self.tokens += usage.tokens
            self.cost_usd += usage.cost_usd or 0.0


class ProgressLine:
    """Shows a line on a live terminal and takes it away again; on anything else it does nothing."""

    def __init__(self, config: pytest.Config) -> None:
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        writer = getattr(reporter, "_tw", None)
        self._writer = writer if writer is not None and writer.hasmarkup and reporter.isatty else None
        self._since: float | None = None
        self._shown = ""

    def show(self, running: int, totals: TrialTotals) -> None:
        """Show how many trials run and what has been spent so far."""
        if self._writer is None:
            return
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since < PATIENCE:
            return
        text = f"  {running} running, {totals.ended} ended, {totals.tokens:,} tokens, ${totals.cost_usd:.4f}"
        room = self._writer.fullwidth - self._writer.width_of_current_line - 1
        if text != self._shown and len(text) <= room:
            self._shown = text
            self._write(f"{SAVE}{text}{ERASE}{RESTORE}")

    def clear(self) -> None:
        """Take the line away."""
        self._since = None
        if self._shown:
            self._shown = ""
            self._write(ERASE)

    def _write(self, text: str) -> None:
        # While an item is set up, pytest captures even what its own reporter writes.
        with self._capture.global_and_fixture_disabled() if self._capture else nullcontext():
            # Past the terminal writer's own count of the line, which must not grow by this.
            assert self._writer is not None
            self._writer._file.write(text)
            self._writer._file.flush()

"""A worker's way to end early, where the controller says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.stash import STOP


class StopListener:
    """Knows whether a worker was told to stop; elsewhere nobody tells."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self._word = folder / STOP if hasattr(config, "workerinput") else None
        self.heard = False

    def obey(self, session: pytest.Session) -> None:
        """Leave the item that pytest is busy with, and the loop, where the controller said so."""
        if self._word is not None and self._word.exists():
            self.heard = True
            session.shouldstop = "the controller stops"
            pytest.exit("the controller stops")

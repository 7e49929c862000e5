"""Who has a say in which trials of a run begin."""

from __future__ import annotations

import pytest

from pytest_agenteval.engine.admission import Admissions
from pytest_agenteval.session.settings import Settings


def admissions(config: pytest.Config, settings: Settings) -> Admissions:
    """Give all that were asked for; what counts with the others, as money does, comes last."""
    return Admissions()

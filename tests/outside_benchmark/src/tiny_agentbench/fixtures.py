"""A pytest fixture that trials of this benchmark may be looked at with."""

from __future__ import annotations

import pytest

from pytest_agenteval import Trial


@pytest.fixture
def tiny_greeting(trial: Trial) -> str:
    """What the agent said."""
    return trial.outcome.answer.text

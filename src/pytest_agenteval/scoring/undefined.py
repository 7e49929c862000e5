"""Figures that have no value for what they were asked about."""

from __future__ import annotations

from pytest_agenteval.errors import AgentEvalError


class Undefined(AgentEvalError):
    """A statistic that these data do not define; its text says why."""

"""Graders of what happened during a trial: which tools were called, how, and how much it took."""

from pytest_agenteval.graders.transcript.arguments import CallArguments
from pytest_agenteval.graders.transcript.called import ToolCalled, ToolNotCalled
from pytest_agenteval.graders.transcript.ceilings import CallCeiling, StepCeiling, TokenCeiling
from pytest_agenteval.graders.transcript.order import CallsInOrder

__all__ = [
    "CallArguments",
    "CallCeiling",
    "CallsInOrder",
    "StepCeiling",
    "TokenCeiling",
    "ToolCalled",
    "ToolNotCalled",
]

"""Graders of what happened during a trial: which tools were called, how, and how much it took."""

from pytest_agenteval.graders.transcript.arguments import CallArguments
from pytest_agenteval.graders.transcript.budgets import CallCeiling, StepCeiling, TokenCeiling
from pytest_agenteval.graders.transcript.order import CallsInOrder
from pytest_agenteval.graders.transcript.tool_usage import ToolCalled, ToolNotCalled

__all__ = [
    "CallArguments",
    "CallCeiling",
    "CallsInOrder",
    "StepCeiling",
    "TokenCeiling",
    "ToolCalled",
    "ToolNotCalled",
]

"""What an agent would be in a trial, told without letting it act: its prompts, its code, its tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeGuard

from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.record import NOTHING, Record


class AgentSide(Record, frozen=True):
    """Digests of what stands on an agent's side before it acts, as its trial would have them.

    ``tools`` are those that it is offered; it may offer others itself. ``prompts`` holds the digest of each
    prompt's text by its name, of which ``prompt`` is the digest of all. ``tool_code`` covers the files that
    tools are written in.
    """

    prompt: str = ""
    code: str = ""
    tools: str = ""
    prompts: Mapping[str, str] = NOTHING
    tool_code: str = ""


class TellsAgentSide(Protocol):
    """An executor that can say what an agent would be in a trial, so that the agent is made only there."""

    async def agent_side(self, plan: Plan) -> AgentSide:
        """Make the agent if need be, and say what it is; raises what keeps it from being made."""
        ...


def tells_agent_side(executor: object) -> TypeGuard[TellsAgentSide]:
    """Whether an executor can say what an agent would be."""
    return hasattr(executor, "agent_side")

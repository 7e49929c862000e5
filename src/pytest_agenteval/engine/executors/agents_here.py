"""Saying what agents would be, in this process, for an executor that cannot say it."""

from __future__ import annotations

from pytest_agenteval.engine.agent_side import AgentSide
from pytest_agenteval.engine.executors.executor import ExecutorContext
from pytest_agenteval.engine.executors.local import LocalExecutor
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.registry.registry import Registry


class AgentsHere:
    """Makes agents in this process, which are never let act: only to look at them."""

    def __init__(self, registry: Registry, context: ExecutorContext) -> None:
        self._executor, self._context = LocalExecutor(registry), context
        self._is_ready = False

    async def agent_side(self, plan: Plan) -> AgentSide:
        """Make the agent if need be, and say what it is; raises what keeps it from being made."""
        if not self._is_ready:
            self._is_ready = True
            await self._executor.ready(self._context)
        return await self._executor.agent_side(plan)

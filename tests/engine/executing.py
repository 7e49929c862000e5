"""Plans made by hand and carried out by the real engine, without any pytest run."""

from __future__ import annotations

import asyncio
from typing import Any

from pytest_agenteval.engine.trial import run_trial
from pytest_agenteval.engine.worker_context import WorkerContext
from pytest_agenteval.records.plan import Allowance, Conditions, Model, Plan, PlannedGrader, PlannedTask
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.registry.registry import Registry

SCRIPTED = Model("scripted", "scripted", offline=True)
NOBODY = Conditions()


def registry(**graders: Any) -> Registry:
    """Give what is built in or installed, and these graders."""
    made = installed_registry()
    for name, factory in graders.items():
        made.grader(name, factory)
    return made


def plan(
    id: str = "t", *graders: PlannedGrader, seconds: float = 0.0, conditions: Conditions = NOBODY, **more: Any
) -> Plan:
    """Plan a trial in which the model says hello to Mina."""
    asked = graders or (PlannedGrader("answer_contains", "answer", {"text": "Mina"}),)
    settings: dict[str, Any] = {
        "agent": "tool_calling",
        "kind": "mixed",
        "input": {"content": "Say hello to Mina."},
        "limits": Allowance(steps=10),
        "script": ({"text": "Hello, Mina!", "seconds": seconds},),
        **more,
    }
    task = PlannedTask(suite="s", id=id, bucket="b", graders=asked, **settings)
    return Plan(task, SCRIPTED, conditions=conditions)


def execute(known: Registry, *plans: Plan) -> list[Trial]:
    """Carry out plans side by side, and give their trials in this order."""

    async def all_of_them() -> list[Trial]:
        equipment = WorkerContext(known)
        try:
            return list(await asyncio.gather(*(run_trial(each, equipment) for each in plans)))
        finally:
            await equipment.close()

    return asyncio.run(all_of_them())

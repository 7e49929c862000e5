"""What holds for one task: its own words over those of its suite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.agent_specs import AgentForm
from pytest_agenteval.tasks.suite_spec import Suite, SuiteDefaults
from pytest_agenteval.tasks.task_spec import Limits, Task

T = TypeVar("T")
_NO_DEFAULTS = SuiteDefaults()
_NO_LIMITS = Limits()


class TaskSettings(FrozenValue, frozen=True):
    """The task's own values over its suite's; command line and project settings come on top of these."""

    agent: str | None
    form: AgentForm | None
    trials: int
    limits: Limits
    clock: str | None
    models: tuple[str, ...]
    tags: tuple[str, ...]
    settings: Mapping[str, Any]
    prompts: Mapping[str, str]


def resolve_settings(task: Task, suite: Suite | None) -> TaskSettings:
    """Put a task's values over its suite's; maps are merged key by key, one level deep."""
    defaults = suite.defaults if suite else _NO_DEFAULTS
    shared = _over(suite.settings if suite else {}, defaults.settings)
    return TaskSettings(
        agent=task.agent or (suite.agent_name if suite else None),
        form=suite.agent if suite and not task.agent and isinstance(suite.agent, AgentForm) else None,
        trials=task.trials_per_run or defaults.trials_per_run or 1,
        limits=_limits(task, defaults.limits),
        clock=task.clock or defaults.clock,
        models=(suite.model,) if suite and suite.model else defaults.models,
        tags=tuple(dict.fromkeys((*defaults.tags, *task.tags))),
        settings=_over(shared, task.settings),
        prompts=_over(suite.prompts if suite else {}, task.prompts),
    )


def _limits(task: Task, defaults: Limits) -> Limits:
    own = task.limits
    if own == _NO_LIMITS and task.timeout_seconds is None:
        return defaults
    return Limits(
        steps=own.steps or defaults.steps,
        seconds=own.seconds or task.timeout_seconds or defaults.seconds,
        tokens=own.tokens or defaults.tokens,
        cost_usd=own.cost_usd or defaults.cost_usd,
    )


def _over(base: Mapping[str, T], own: Mapping[str, T]) -> Mapping[str, T]:
    return {**base, **own} if base and own else own or base

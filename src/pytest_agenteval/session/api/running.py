"""Trials from Python: one task, tried here and now; no pytest is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal, overload

from pytest_agenteval.engine.jobs import TrialJob
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.session.api.code_place import CodePlace, calling_place
from pytest_agenteval.session.api.environment import Environment, environment_of, remember
from pytest_agenteval.session.api.given import AgentGiven, GraderGiven
from pytest_agenteval.session.api.planning import RunOptions, plans_of
from pytest_agenteval.session.api.regrade import regraded
from pytest_agenteval.session.api.script import script_environment
from pytest_agenteval.session.api.task_choice import TaskGiven
from pytest_agenteval.session.api.trials import Trials
from pytest_agenteval.text.errors import UsageMistake


@overload
def run(
    task: TaskGiven,
    *,
    agent: AgentGiven | None = None,
    model: str | None = None,
    repetitions: Literal[1] = 1,
    record: str = "none",
    record_chat: str = "off",
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Trial: ...


@overload
def run(
    task: TaskGiven,
    *,
    agent: AgentGiven | None = None,
    model: str | None = None,
    repetitions: int,
    record: str = "none",
    record_chat: str = "off",
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Trial | Trials: ...


def run(
    task: TaskGiven,
    *,
    agent: AgentGiven | None = None,
    model: str | None = None,
    repetitions: int = 1,
    record: str = "none",
    record_chat: str = "off",
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Trial | Trials:
    """Try one task, and give the graded trial; with ``repetitions`` above 1, that many trials side by side.

    ``task`` is the path of a task file, ``PATH::ID`` for one of several tasks, or a map as in a task file,
    which needs no id and may leave its graders to ``grade``. ``agent`` is a registered name,
    ``module:function``, a map as in suite.yaml, or what acts itself; else the task's suite says it. ``model``
    is an alias, a litellm id or an offline model. ``judge`` names models that judge, ``settings`` lie over
    the task's. Recordings lie in ``cassettes/`` at the project's root; for a mode that is not said the
    environment's holds (``AGENTEVAL_RECORD``, ``AGENTEVAL_RECORD_CHAT``), then that of pyproject.toml.

    For a path, what conftests above it register is known; for a map, what is built in and what installed
    benchmarks offer. Raises UsageMistake or ProblemsFound for what cannot be tried, and where an event loop
    runs, as in a notebook: there it is ``await arun(...)``. What breaks a trial is in its record.
    """
    refuse_running_loop("run")
    options = RunOptions(
        agent, model, repetitions, unless(record, "none"), unless(record_chat, "off"), judge, settings
    )
    environment = script_environment(task)
    plans = plans_of(environment, task, options, calling_place())
    return given_back(environment.carry_out([TrialJob(plan) for plan in plans]), plans, environment)


@overload
async def arun(
    task: TaskGiven,
    *,
    agent: AgentGiven | None = None,
    model: str | None = None,
    repetitions: Literal[1] = 1,
    record: str = "none",
    record_chat: str = "off",
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Trial: ...


@overload
async def arun(
    task: TaskGiven,
    *,
    agent: AgentGiven | None = None,
    model: str | None = None,
    repetitions: int,
    record: str = "none",
    record_chat: str = "off",
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Trial | Trials: ...


def arun(
    task: TaskGiven,
    *,
    agent: AgentGiven | None = None,
    model: str | None = None,
    repetitions: int = 1,
    record: str = "none",
    record_chat: str = "off",
    judge: Sequence[str] = (),
    settings: Mapping[str, Any] = NOTHING,
) -> Coroutine[Any, Any, Trial | Trials]:
    """Do what ``run`` does where an event loop runs, as in a notebook: ``trial = await arun(...)``."""
    options = RunOptions(
        agent, model, repetitions, unless(record, "none"), unless(record_chat, "off"), judge, settings
    )
    # Not within the coroutine: there nobody knows any more who called.
    return _arun(task, options, calling_place())


async def _arun(task: TaskGiven, options: RunOptions, place: CodePlace) -> Trial | Trials:
    environment = script_environment(task)
    plans = plans_of(environment, task, options, place)
    trials = await environment.carry_out_async([TrialJob(plan) for plan in plans])
    return given_back(trials, plans, environment)


def grade(trial: Trial, graders: Sequence[GraderGiven] | None = None) -> Trial:
    """Give a trial with new grades; no agent acts, nothing is asked but judges that were there before.

    Without ``graders`` those of its task grade again, which is known of trials of this process alone. Of any
    other trial, such as one of ``load_run``, graders see everything but the task's input.
    """
    refuse_running_loop("grade")
    return regraded(environment_of(trial) or script_environment({}), trial, graders, calling_place())


def tool_calls(trial: Trial, name: str | None = None) -> list[ToolCall]:
    """Give the calls of tools that a trial's agent made, in order: all of them, or those of one tool."""
    return [
        call for call in trial.transcript.calls if call.by != "seed" and (name is None or call.tool == name)
    ]


def unless(mode: str, default: str) -> str | None:
    """Give a mode that a call names; None for the default, in whose place the environment's stands."""
    return None if mode == default else mode


def refuse_running_loop(function: str) -> None:
    """Raise UsageMistake where an event loop runs, which would stand still meanwhile."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    way = "use `await arun(...)`" if function == "run" else "call it from a thread: `asyncio.to_thread(...)`"
    raise UsageMistake(f"{function}(...) would hold up the event loop that runs here: {way}")


def given_back(trials: Sequence[Trial], plans: Sequence[Plan], environment: Environment) -> Trial | Trials:
    """Give the trials of a call as it does: one alone, or all of them; each can be graded again."""
    for plan, trial in zip(plans, trials, strict=True):
        remember(plan, trial, environment)
    return trials[0] if len(trials) == 1 else Trials(trials)

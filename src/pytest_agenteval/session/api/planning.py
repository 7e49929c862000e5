"""What a call of ``run`` asks for, as plans of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_agenteval.chat.models import expand_panels, resolve_all
from pytest_agenteval.records.plan import OWN_MODEL, Conditions, Model, Plan, RecordMode
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.session.api.code_place import CodePlace
from pytest_agenteval.session.api.environment import Environment
from pytest_agenteval.session.api.given import AgentGiven
from pytest_agenteval.session.api.task_choice import ChosenTask, TaskChoice, TaskGiven
from pytest_agenteval.session.planning.parametrization import PLAYERS
from pytest_agenteval.session.settings import CHAT_MODES, TOOL_MODES
from pytest_agenteval.text.errors import UsageMistake

DEFAULT_MODEL = "rules"


class RunOptions(NamedTuple):
    """What a call of ``run`` says beside its task: see there."""

    agent: AgentGiven | None = None
    model: str | None = None
    repetitions: int = 1
    record: str | None = None
    record_chat: str | None = None
    judge: Sequence[str] = ()
    settings: Mapping[str, Any] = NOTHING


def plans_of(
    environment: Environment,
    task: TaskGiven,
    options: RunOptions,
    place: CodePlace,
    owner: str = "",
    id: str = "",
) -> list[Plan]:
    """Plan the trials that a call asks for; ``owner`` and ``id`` are suite and id of a map that says none."""
    if options.repetitions < 1:
        raise UsageMistake(f"repetitions: expected a whole number, 1 or more; found {options.repetitions!r}")
    choice = TaskChoice(environment.registry, environment.root, Path.cwd(), owner)
    chosen = choice.of(task, options.agent, options.settings, place, id)
    model = _model(environment, chosen, options.model)
    conditions = conditions_of(environment, options)
    return [
        Plan(chosen.task, model, repetition=repetition, conditions=conditions)
        for repetition in range(1, options.repetitions + 1)
    ]


def conditions_of(environment: Environment, options: RunOptions) -> Conditions:
    """Give what holds for every trial of a call."""
    registry, aliases = environment.registry, environment.aliases
    names = (options.judge,) if isinstance(options.judge, str) else tuple(options.judge)
    judges = resolve_all(
        expand_panels(names, aliases, registry.judge_panels), aliases, registry.offline_models
    )
    for judge in judges:
        if judge.id in PLAYERS or judge.id == OWN_MODEL:
            raise UsageMistake(f"judge: {judge.name!r} plays an agent and judges nothing; name a model")
    record = mode_of("record", options.record, environment.record)
    return Conditions(
        record=record,
        record_chat=mode_of("record_chat", options.record_chat, environment.record_chat),
        judges=judges,
        seed=environment.seed,
        live=environment.said_live,
        keep_workspaces=environment.keep_workspaces,
        prices=environment.prices,
    )


def mode_of(name: str, said: str | None, otherwise: RecordMode) -> RecordMode:
    """Give the mode that a call names, else the environment's; raises UsageMistake for what is none."""
    mode = otherwise if said is None else said
    words: tuple[RecordMode, ...] = CHAT_MODES if name == "record_chat" else TOOL_MODES
    for word in words:
        if word == mode:
            return word
    raise UsageMistake(f"{name}: expected one of {', '.join(words)}; found {mode!r}")


def _model(environment: Environment, chosen: ChosenTask, named: str | None) -> Model:
    """Give the model that a call names, else the first that the suite does, else the agent's own."""
    default = OWN_MODEL if chosen.task.form else DEFAULT_MODEL
    name = named or next(iter(chosen.models), default)
    (model,) = resolve_all((name,), environment.aliases, environment.registry.offline_models)
    return model

"""What is to be done in a trial, as plain data that can travel to another process.

Everything that is not data goes by the name under which it is registered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from pytest_agenteval.records.transcript import NOTHING
from pytest_agenteval.records.trial import Kind, TrialKey

RecordMode = Literal["off", "none", "once", "new_episodes", "all"]


@dataclass(frozen=True, slots=True)
class Model:
    """What an agent or a judge thinks with.

    ``name`` is what the user typed and reports show; ``id`` an offline model's name or a litellm id.
    ``params`` go to the provider with every request (``api_base``, ``temperature``, …); ``api_key_env``
    names the variable with the key.
    """

    name: str
    id: str
    offline: bool = False
    params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    api_key_env: str = ""


@dataclass(frozen=True, slots=True)
class PlannedGrader:
    """Which grader to apply, how, and how much it weighs."""

    name: str
    label: str
    config: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    weight: float = 1.0
    threshold: float | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a trial may use; None means as much as it likes."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """One task as trials need it: its own file's content with the suite's defaults filled in.

    ``layers`` are the folders that make the starting workspace, lowest first. ``prompts`` holds the texts
    that replace the agent's own templates of the same name. ``reference`` and ``script`` are for offline
    models only.
    ``cassette`` is the path of the task's recordings without its ending, ``shared`` those of the suite that
    are asked after it. ``tools`` are tool files, or names of packaged sets; ``faults`` say which
    tools fail on purpose.
    """

    suite: str
    id: str
    agent: str
    kind: Kind
    bucket: str
    graders: tuple[PlannedGrader, ...]
    input: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    file: str = ""
    line: int = 1
    tags: tuple[str, ...] = ()
    description: str = ""
    settings: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    prompts: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    layers: tuple[str, ...] = ()
    limits: Allowance = Allowance()
    clock: str | None = None
    reference: Mapping[str, Any] | None = None
    script: tuple[Mapping[str, Any], ...] | None = None
    split: Literal["dev", "held_out"] = "dev"
    repetitions: int = 1
    cassette: str = ""
    shared: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    on_miss: Literal["error", "tool_error"] = "error"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is the same for every trial of a run: recording, judges, seed, where to keep things."""

    record: RecordMode = "none"
    record_chat: RecordMode = "off"
    judges: tuple[Model, ...] = ()
    seed: int = 0
    keep_workspaces: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """A named set of prompt texts; the unnamed one changes nothing."""

    name: str = ""
    prompts: Mapping[str, str] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Plan:
    """One trial to be carried out."""

    task: PlannedTask
    model: Model
    variant: Variant = Variant()
    repetition: int = 1
    attempt: int = 1
    conditions: Conditions = Conditions()

    @property
    def key(self) -> TrialKey:
        """What tells this trial from all others of its run."""
        task = self.task
        return TrialKey(task.suite, task.id, task.agent, self.model.name, self.variant.name, self.repetition)

    @property
    def seed(self) -> int:
        """The trial's own seed: the run's seed moved by the repetition, equal for every model."""
        return self.conditions.seed + self.repetition

    def to_json(self) -> dict[str, Any]:
        """Give the plan as JSON values."""
        return {**_jsonable(self), "v": 1}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Make a plan from what ``to_json`` gave."""
        task, conditions = dict(data["task"]), dict(data["conditions"])
        task["graders"] = tuple(PlannedGrader(**grader) for grader in task["graders"])
        task["limits"] = Allowance(**task["limits"])
        for name in ("tags", "layers", "shared", "tools", "faults"):
            task[name] = tuple(task[name])
        task["script"] = None if task["script"] is None else tuple(task["script"])
        conditions["judges"] = tuple(Model(**judge) for judge in conditions["judges"])
        return cls(
            PlannedTask(**task),
            Model(**data["model"]),
            Variant(**data["variant"]),
            data["repetition"],
            data["attempt"],
            Conditions(**conditions),
        )


def _jsonable(value: Any) -> Any:
    """Turn records, tuples and read-only maps into dicts and lists, all the way down."""
    if is_dataclass(value):
        return {each.name: _jsonable(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {key: _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_jsonable(inner) for inner in value]
    return value

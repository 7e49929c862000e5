"""What authors write: one frozen model for each thing in a task file or a suite file.

What holds for one task is its own words over its suite's: ``resolve_settings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.tasks.field_types import (
    Arguments,
    ClockText,
    Count,
    Flag,
    Map,
    Models,
    Named,
    Number,
    Paths,
    Positive,
    Share,
    Spec,
    Tag,
    Text,
    Texts,
    Tokens,
    TwoSpellings,
)

SolutionSource = Literal["manual", "captured", "synthesized"]
Split = Literal["dev", "held_out"]
OnMiss = Literal["error", "tool_error"]
FaultKind = Literal[
    "timeout",
    "complete_unavailable",
    "data_not_available",
    "rate_limited",
    "malformed",
    "partial",
    "slow",
    "stale",
]
T = TypeVar("T")


class GraderSpec(Spec):
    """Which grader to apply, how it is set, and how much it weighs."""

    name: Named = Field(description="the name of a registered grader")
    config: Map = Field(default_factory=dict, description="a map of the grader's own settings")
    weight: Positive = Field(default=1.0, description="a number above 0")
    threshold: Share | None = Field(default=None, description="a number from 0 to 1: the score to reach")
    require: Flag = Field(default=False, description="true or false: whether the grade has to be decided")
    label: Named | None = Field(default=None, description="a text that tells graders of one name apart")

    @property
    def title(self) -> str:
        """What reports call it: its label, or else its name."""
        return self.label or self.name


class Limits(Spec):
    """How much a trial may use up before it is stopped."""

    steps: Count | None = Field(default=None, description="a whole number, 1 or more: turns of the model")
    seconds: Positive | None = Field(default=None, description="a number of seconds above 0")
    tokens: Count | None = Field(default=None, description="a whole number, 1 or more: tokens in and out")
    cost_usd: Positive | None = Field(default=None, description="a number of US dollars above 0")


class PlannedCall(Spec):
    """A tool call that a turn makes; a text as ``args`` is what the model would send in place of JSON."""

    tool: Named = Field(description="the name of a tool")
    args: Arguments = Field(default_factory=dict, description="a map of arguments, or a text instead of JSON")


class FaultSpec(Spec):
    """How a tool fails on purpose, and at which of its calls."""

    tool: Named = Field(description="the name of the tool that fails")
    type: FaultKind = Field(
        description="timeout, complete_unavailable, data_not_available, rate_limited, malformed, partial, "
        "slow or stale"
    )
    times: Count | None = Field(
        default=None, description="a whole number, 1 or more: how many calls fail (every one, if not said)"
    )
    after: Tokens = Field(
        default=0, description="a whole number, 0 or more: how many calls are let through first"
    )
    seconds: Positive = Field(
        default=5.0, description="a number of seconds above 0: how long a slow tool takes longer"
    )


class Turn(Spec):
    """One reply of the model: what it says and which tools it calls."""

    text: Text = Field(default="", description="what the model says: a text")
    calls: tuple[PlannedCall, ...] = Field(default=(), description="a list of tool calls")


class ScriptEntry(Turn):
    """One reply of the scripted model, with what it costs."""

    seconds: Annotated[Number, Field(ge=0)] = Field(
        default=0.0, description="a number of seconds, 0 or more: how long the model thinks"
    )
    input_tokens: Tokens = Field(default=0, description="a whole number, 0 or more")
    output_tokens: Tokens = Field(default=0, description="a whole number, 0 or more")


def _known_source(value: Any) -> Any:
    return "manual" if isinstance(value, str) and value not in ("captured", "synthesized") else value


class ReferenceSolution(TwoSpellings):
    """How the task can be solved, and what is then true."""

    source: Annotated[SolutionSource, BeforeValidator(_known_source), WithJsonSchema({"type": "string"})] = (
        Field(default="manual", description="manual, captured or synthesized; any other text means manual")
    )
    expected_outcome: Map = Field(default_factory=dict, description="a map of what is true afterwards")
    turns: tuple[Turn, ...] = Field(default=(), description="a list of turns that solve the task")
    sample_transcript: Any = Field(default=None, description="a transcript of a solution, in any form")


def _distinct_titles(graders: tuple[GraderSpec, ...]) -> tuple[GraderSpec, ...]:
    first: dict[str, int] = {}
    problems = [
        (
            (index,),
            "a name or label of its own",
            f"{grader.title!r}, which graders[{first[grader.title]}] has too",
        )
        for index, grader in enumerate(graders)
        if first.setdefault(grader.title, index) != index
    ]
    if problems:
        hint = "give one of them a `label`"
        raise PydanticCustomError("problems", "{hint}", {"problems": problems, "hint": hint})
    return graders


class Task(Spec):
    """One question for an agent, where it starts, and how its answer is graded."""

    id: Annotated[Text, Field(pattern=r"^[^\s/\\:\[\]]+$")] = Field(
        description="a text with no space, slash, colon or bracket"
    )
    description: Text = Field(default="", description="a text: what the task is about")
    input: Map = Field(description="a map: what the agent is given")
    metadata: Texts = Field(default_factory=dict, description="a map; `failure_bucket` names the bucket")
    tags: tuple[Tag, ...] = Field(default=(), description="a list of texts without spaces")
    graders: Annotated[tuple[GraderSpec, ...], Field(min_length=1), AfterValidator(_distinct_titles)] = Field(
        description="a list of 1 grader or more"
    )
    trials_per_run: Count | None = Field(default=None, description="a whole number, 1 or more")
    timeout_seconds: Positive | None = Field(
        default=None, description="a number of seconds above 0; `limits.seconds` comes before it"
    )
    limits: Limits = Field(
        default=Limits.model_construct(), description="a map of limits: steps, seconds, tokens, cost_usd"
    )
    clock: ClockText | None = Field(
        default=None, description="a date and time, as in 2026-05-25T09:00:00+09:00"
    )
    agent: Named | None = Field(default=None, description="the name of a registered agent")
    split: Split = Field(default="dev", description="dev or held_out")
    script: tuple[ScriptEntry, ...] | None = Field(
        default=None, description="a list of the replies that the scripted model gives"
    )
    prompts: Paths = Field(default_factory=dict, description="a map from names of prompts to paths of files")
    settings: Map = Field(default_factory=dict, description="a map of the agent's settings for this task")
    faults: tuple[FaultSpec, ...] = Field(
        default=(), description="a list of faults: which tools fail on purpose, and how"
    )
    reference_solution: ReferenceSolution | None = Field(default=None, description="a map: how it is solved")


class SuiteDefaults(Spec):
    """What holds for each task of a suite that does not say otherwise."""

    trials_per_run: Count | None = Field(default=None, description="a whole number, 1 or more")
    limits: Limits = Field(
        default=Limits.model_construct(), description="a map of limits: steps, seconds, tokens, cost_usd"
    )
    clock: ClockText | None = Field(
        default=None, description="a date and time, as in 2026-05-25T09:00:00+09:00"
    )
    model: Models = Field(default=(), description="the name of a model, or a list of names")
    tags: tuple[Tag, ...] = Field(default=(), description="a list of texts without spaces")
    settings: Map = Field(default_factory=dict, description="a map of the agent's settings")


class Suite(TwoSpellings):
    """What the tasks below a folder have in common."""

    name: Named = Field(description="a text that is not blank: the suite's name")
    description: Text = Field(default="", description="a text: what the suite is about")
    agent: Named | None = Field(default=None, description="the name of a registered agent")
    kind: Kind = Field(default="mixed", description="capability, regression or mixed")
    defaults: SuiteDefaults = Field(
        default=SuiteDefaults.model_construct(), description="a map: what holds for each task"
    )
    prompts: Paths = Field(default_factory=dict, description="a map from names of prompts to paths of files")
    settings: Map = Field(default_factory=dict, description="a map of the agent's settings")
    tools: tuple[Named, ...] = Field(
        default=(),
        description="a list of tool files, or of names of registered toolsets; all of their "
        "tools are offered where `settings.tools` names none",
    )
    cassettes: tuple[Named, ...] = Field(
        default=(), description="a list of shared cassettes, asked after the task's own: files or folders"
    )
    on_miss: OnMiss = Field(default="error", description="error or tool_error: what a cassette miss is")
    live: Flag = Field(
        default=False, description="true or false: whether what the agent asks by itself goes out, untaped"
    )
    require_reference_solution: Flag = Field(
        default=False, description="true or false: whether each task needs a reference_solution"
    )
    task_pass_threshold: Share = Field(default=1.0, description="a number from 0 to 1")


_NO_DEFAULTS = SuiteDefaults.model_construct()
_NO_LIMITS = Limits.model_construct()


class TaskSettings(FrozenValue, frozen=True):
    """The task's own values over its suite's; command line and project settings come on top of these."""

    agent: str | None
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
        agent=task.agent or (suite.agent if suite else None),
        trials=task.trials_per_run or defaults.trials_per_run or 1,
        limits=_limits(task, defaults.limits),
        clock=task.clock or defaults.clock,
        models=defaults.model,
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

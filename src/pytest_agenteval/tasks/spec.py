"""What authors write: one frozen value for each thing in a task file or a suite file.

What holds for one task is its own words over its suite's: ``resolve_settings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta
from msgspec.structs import force_setattr

from pytest_agenteval.canonical import compact
from pytest_agenteval.records.plan import Kind, Split
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.tasks.agent_specs import NO_HTTP_RULES, AgentForm, HttpRules, ServedTools, UserSpec
from pytest_agenteval.tasks.field_types import (
    AtLeastZero,
    ClockText,
    Count,
    Id,
    Map,
    ModelName,
    ModelNameBesideOthers,
    Named,
    NamedBesideOthers,
    Paths,
    Positive,
    Share,
    Shares,
    Spec,
    Tag,
    Tokens,
    Tolerance,
    TwoSpellings,
    check_clock,
    check_named,
    expects,
)
from pytest_agenteval.tasks.rows.spec import Rows

SOURCES = ("manual", "captured", "synthesized")
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


class GraderSpec(Spec, frozen=True, kw_only=True):
    """Which grader to apply, how it is set, and how much it weighs."""

    name: Annotated[Named, expects("the name of a registered grader")]
    config: Annotated[Map, expects("a map of the grader's own settings")] = NOTHING
    weight: Annotated[Positive, expects("a number above 0")] = 1.0
    threshold: Annotated[Share | None, expects("a number from 0 to 1: the score to reach")] = None
    require: Annotated[bool, expects("true or false: whether the grade has to be decided")] = False
    label: Annotated[Named | None, expects("a text that tells graders of one name apart")] = None

    @property
    def title(self) -> str:
        """What reports call it: its label, or else its name."""
        return self.label or self.name


class Limits(Spec, frozen=True, kw_only=True):
    """How much a trial may use up before it is stopped."""

    steps: Annotated[Count | None, expects("a whole number, 1 or more: turns of the model")] = None
    seconds: Annotated[Positive | None, expects("a number of seconds above 0")] = None
    tokens: Annotated[Count | None, expects("a whole number, 1 or more: tokens in and out")] = None
    cost_usd: Annotated[Positive | None, expects("a number of US dollars above 0")] = None


class PlannedCall(Spec, frozen=True, kw_only=True):
    """A tool call that a turn makes; a text as ``args`` is what the model would send in place of JSON."""

    tool: Annotated[Named, expects("the name of a tool")]
    args: Annotated[Map | str, expects("a map of arguments, or a text instead of JSON")] = NOTHING


class FaultSpec(Spec, frozen=True, kw_only=True):
    """How a tool fails on purpose, and at which of its calls."""

    tool: Annotated[Named, expects("the name of the tool that fails")]
    type: Annotated[
        FaultKind,
        expects(
            "timeout, complete_unavailable, data_not_available, rate_limited, malformed, partial, "
            "slow or stale"
        ),
    ]
    times: Annotated[
        Count | None, expects("a whole number, 1 or more: how many calls fail (every one, if not said)")
    ] = None
    after: Annotated[Tokens, expects("a whole number, 0 or more: how many calls are let through first")] = 0
    seconds: Annotated[
        Positive, expects("a number of seconds above 0: how long a slow tool takes longer")
    ] = 5.0


class Turn(Spec, frozen=True, kw_only=True):
    """One reply of the model: what it says and which tools it calls."""

    text: Annotated[str, expects("what the model says: a text")] = ""
    calls: Annotated[tuple[PlannedCall, ...], expects("a list of tool calls")] = ()


class ScriptEntry(Turn, frozen=True, kw_only=True):
    """One reply of the scripted model, with what it costs."""

    seconds: Annotated[AtLeastZero, expects("a number of seconds, 0 or more: how long the model thinks")] = (
        0.0
    )
    input_tokens: Annotated[Tokens, expects("a whole number, 0 or more")] = 0
    output_tokens: Annotated[Tokens, expects("a whole number, 0 or more")] = 0


class ReferenceSolution(TwoSpellings, frozen=True, kw_only=True):
    """How the task can be solved, and what is then true."""

    source: Annotated[str, expects("manual, captured or synthesized; any other text means manual")] = "manual"
    expected_outcome: Annotated[Map, expects("a map of what is true afterwards")] = NOTHING
    turns: Annotated[tuple[Turn, ...], expects("a list of turns that solve the task")] = ()
    sample_transcript: Annotated[Any, expects("a transcript of a solution, in any form")] = None

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            force_setattr(self, "source", "manual")


class Task(Spec, frozen=True, kw_only=True):
    """One question for an agent, where it starts, and how its answer is graded."""

    id: Annotated[Id, expects("a text with no space, slash, colon or bracket")]
    description: Annotated[str, expects("a text: what the task is about")] = ""
    input: Annotated[Map, expects("a map: what the agent is given")]
    metadata: Annotated[Mapping[str, Any], expects("a map; `failure_bucket` names the bucket")] = NOTHING
    tags: Annotated[tuple[Tag, ...], expects("a list of texts without spaces")] = ()
    graders: Annotated[tuple[GraderSpec, ...], Meta(min_length=1), expects("a list of 1 grader or more")]
    trials_per_run: Annotated[Count | None, expects("a whole number, 1 or more")] = None
    timeout_seconds: Annotated[
        Positive | None, expects("a number of seconds above 0; `limits.seconds` comes before it")
    ] = None
    limits: Annotated[Limits, expects("a map of limits: steps, seconds, tokens, cost_usd")] = Limits()
    clock: Annotated[ClockText | None, expects("a date and time, as in 2026-05-25T09:00:00+09:00")] = None
    agent: Annotated[Named | None, expects("the name of a registered agent")] = None
    split: Annotated[Split, expects("dev or held_out")] = "dev"
    script: Annotated[
        tuple[ScriptEntry, ...] | None, expects("a list of the replies that the scripted model gives")
    ] = None
    prompts: Annotated[Paths, expects("a map from names of prompts to paths of files")] = NOTHING
    settings: Annotated[Map, expects("a map of the agent's settings for this task")] = NOTHING
    faults: Annotated[
        tuple[FaultSpec, ...], expects("a list of faults: which tools fail on purpose, and how")
    ] = ()
    reference_solution: Annotated[ReferenceSolution | None, expects("a map: how it is solved")] = None
    user: Annotated[
        UserSpec | None, expects("a map of persona, goal and stop: the user, whom a model plays")
    ] = None

    def __post_init__(self) -> None:
        check_clock(self.clock)
        if not all(isinstance(value, str) for value in self.metadata.values()):
            texts = {
                key: value if isinstance(value, str) else compact(value)
                for key, value in self.metadata.items()
            }
            force_setattr(self, "metadata", texts)


class SuiteDefaults(Spec, frozen=True, kw_only=True):
    """What holds for each task of a suite that does not say otherwise."""

    trials_per_run: Annotated[Count | None, expects("a whole number, 1 or more")] = None
    limits: Annotated[Limits, expects("a map of limits: steps, seconds, tokens, cost_usd")] = Limits()
    clock: Annotated[ClockText | None, expects("a date and time, as in 2026-05-25T09:00:00+09:00")] = None
    model: Annotated[
        tuple[ModelName, ...] | ModelNameBesideOthers, expects("the name of a model, or a list of names")
    ] = ()
    tags: Annotated[tuple[Tag, ...], expects("a list of texts without spaces")] = ()
    settings: Annotated[Map, expects("a map of the agent's settings")] = NOTHING

    def __post_init__(self) -> None:
        check_clock(self.clock)
        check_named(self.model)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models: one that stands alone is a list of one."""
        return (self.model,) if isinstance(self.model, str) else self.model


class Regression(Spec, frozen=True, kw_only=True):
    """What of a capability suite has been promoted: there a miss is a failure, as in a regression suite."""

    buckets: Annotated[tuple[Named, ...], expects("a list of buckets of the suite")] = ()
    tasks: Annotated[tuple[Named, ...], expects("a list of ids of tasks of the suite")] = ()


NOTHING_PROMOTED = Regression()


class Gate(Spec, frozen=True, kw_only=True):
    """What a run of a suite has to reach: where it does not, pytest's exit status is 1."""

    score: Annotated[Share | None, expects("a number from 0 to 1: the least mean score of the suite")] = None
    buckets: Annotated[
        Shares, expects("a map from buckets of the suite to their least mean score, 0 to 1")
    ] = NOTHING
    pass_hat_k: Annotated[
        Share | None,
        expects("a number from 0 to 1: the least share of tasks that pass at every repetition"),
    ] = None
    not_worse: Annotated[
        bool | Tolerance | None,
        expects(
            "true: neither the suite nor a bucket is worse than in the baseline; or a number between 0 and "
            "1: and the suite surely not by more than this"
        ),
    ] = None
    better: Annotated[
        bool | None, expects("true or false: whether the suite, or a bucket, has to be better")
    ] = None
    errored: Annotated[
        Share | None,
        expects("a number from 0 to 1: the largest share of trials that errored or were never run"),
    ] = None
    recheck: Annotated[
        Count | None,
        expects("a whole number, 1 or more: how often a broken task is tried again before it counts"),
    ] = None
    baseline: Annotated[Named | None, expects("the path of a baseline's file, from the suite's folder")] = (
        None
    )

    @property
    def asks(self) -> bool:
        """Whether anything has to be reached."""
        rules = (self.score, self.buckets or None, self.pass_hat_k, self.not_worse, self.better, self.errored)
        return any(rule is not None and rule is not False for rule in rules)

    @property
    def needs_baseline(self) -> bool:
        """Whether there has to be something to compare with."""
        return bool(self.not_worse or self.better)


NO_GATE = Gate()


class Acts(Spec, frozen=True, kw_only=True):
    """What shows that an agent acted, where tasks say by a label whether it should; any of it is enough."""

    files: Annotated[tuple[Named, ...], expects("a list of paths and globs of the workspace")] = ()
    tools: Annotated[tuple[Named, ...], expects("a list of names of tools")] = ()


NOTHING_ACTS = Acts()


class Suite(TwoSpellings, frozen=True, kw_only=True):
    """What the tasks below a folder have in common."""

    name: Annotated[Named, expects("a text that is not blank: the suite's name")]
    description: Annotated[str, expects("a text: what the suite is about")] = ""
    agent: Annotated[
        NamedBesideOthers | AgentForm | None,
        expects("the name of a registered agent, or a map with one of call, command and http"),
    ] = None
    model: Annotated[
        ModelNameBesideOthers | None,
        expects("the name of a model, or own: the agent asks its own, which its requests name"),
    ] = None
    env: Annotated[Mapping[str, str], expects("a map of environment variables for a command")] = NOTHING
    env_pass: Annotated[
        tuple[Named, ...], expects("a list of names of variables that a command gets from our environment")
    ] = ()
    proxy: Annotated[
        Mapping[str, str],
        expects("a map from environment variables to base addresses: what is asked there is taped"),
    ] = NOTHING
    http: Annotated[
        HttpRules, expects("a map of `models` and `ignore`: servers that the agent asks by itself")
    ] = NO_HTTP_RULES
    kind: Annotated[Kind, expects("capability, regression or mixed")] = "mixed"
    regression: Annotated[
        Regression, expects("a map of `buckets` and `tasks`: those of which a miss is a failure")
    ] = NOTHING_PROMOTED
    acts: Annotated[
        Acts,
        expects("a map of `files` and `tools`: a trial that changed or called one of them is one that acted"),
    ] = NOTHING_ACTS
    gate: Annotated[Gate, expects("a map: what a run has to reach, or else pytest's exit status is 1")] = (
        NO_GATE
    )
    defaults: Annotated[SuiteDefaults, expects("a map: what holds for each task")] = SuiteDefaults()
    prompts: Annotated[Paths, expects("a map from names of prompts to paths of files")] = NOTHING
    settings: Annotated[Map, expects("a map of the agent's settings")] = NOTHING
    tools: Annotated[
        tuple[NamedBesideOthers | ServedTools, ...],
        expects(
            "a list of tool files, of names of registered toolsets, or of maps {mcp: …}; all of their "
            "tools are offered where `settings.tools` names none"
        ),
    ] = ()
    cassettes: Annotated[
        tuple[Named, ...], expects("a list of shared cassettes, asked after the task's own: files or folders")
    ] = ()
    on_miss: Annotated[OnMiss, expects("error or tool_error: what a cassette miss is")] = "error"
    live: Annotated[
        bool, expects("true or false: whether what the agent asks by itself goes out, untaped")
    ] = False
    require_reference_solution: Annotated[
        bool, expects("true or false: whether each task needs a reference_solution")
    ] = False
    task_pass_threshold: Annotated[Share, expects("a number from 0 to 1")] = 1.0
    tasks: Annotated[
        Rows | tuple[Rows, ...],
        expects("a map with `rows`, `input` and `graders`: each row is a task; or a list of such maps"),
    ] = ()

    @property
    def tables(self) -> tuple[Rows, ...]:
        """The tables whose rows are tasks: one that stands alone is a list of one."""
        return (self.tasks,) if isinstance(self.tasks, Rows) else self.tasks

    def __post_init__(self) -> None:
        for entry in self.tools:
            check_named(entry)
        check_named(self.agent)
        check_named(self.model)

    @property
    def agent_name(self) -> str | None:
        """What the agent is called: the name of a registered one, or what its form is called."""
        return self.agent.title(self.name) if isinstance(self.agent, AgentForm) else self.agent

    def kind_of(self, task: str, bucket: str) -> Kind:
        """Give the kind of a task's trials: the suite's own, unless the task or its bucket is promoted."""
        promoted = self.regression
        return "regression" if bucket in promoted.buckets or task in promoted.tasks else self.kind


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

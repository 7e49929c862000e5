"""What a suite's file says: what the tasks below its folder have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.agent_specs import NO_HTTP_RULES, AgentForm, HttpRules, ServedTools
from pytest_agenteval.tasks.field_types import (
    ClockText,
    Count,
    Map,
    ModelName,
    ModelNameBesideOthers,
    Named,
    NamedBesideOthers,
    Paths,
    Share,
    Spec,
    Tag,
    TwoSpellings,
    check_clock,
    check_named,
    expects,
)
from pytest_agenteval.tasks.gate_spec import NO_GATE, Gate
from pytest_agenteval.tasks.rows.spec import Rows
from pytest_agenteval.tasks.task_spec import Limits

OnMiss = Literal["error", "tool_error"]


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

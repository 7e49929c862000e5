"""What a suite file may hold: agent, defaults, gate, rows; and how tasks and suites are merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta

from pytest_agenteval.records.plan import Kind
from pytest_agenteval.records.record import NOTHING, FrozenValue, from_builtins
from pytest_agenteval.tasks.documents import is_no_map_of_tasks
from pytest_agenteval.tasks.task_spec import (
    NO_HTTP_RULES,
    AgentForm,
    ClockText,
    Count,
    Holds,
    HttpRules,
    Limits,
    Map,
    ModelName,
    ModelNameBesideOthers,
    Named,
    NamedBesideOthers,
    OfKind,
    Paths,
    ServedTools,
    Share,
    Shares,
    Spec,
    Tag,
    Task,
    Tolerance,
    TwoSpellings,
    check_clock,
    check_named,
    expects,
)
from pytest_agenteval.text.errors import KeyPath


class Gate(Spec, frozen=True, kw_only=True):
    """What a run of a suite has to reach: where it does not, pytest's exit status is 1."""

    score: Annotated[Share | None, expects("a number from 0 to 1: the least mean score of the suite")] = None
    buckets: Annotated[
        Shares, expects("a map from buckets of the suite to their least mean score, 0 to 1")
    ] = NOTHING
    pass_hat_k: Annotated[
        Share | None, expects("a number from 0 to 1: the least share of tasks that pass at every repetition")
    ] = None
    not_worse: Annotated[
        bool | Tolerance | None,
        expects(
            "true: neither the suite nor a bucket may be worse than the baseline; a number between 0 and "
            "1: nor the suite by more than that"
        ),
    ] = None
    better: Annotated[bool | None, expects("true or false: whether the suite or a bucket must be better")] = (
        None
    )
    errored: Annotated[
        Share | None,
        expects("a number from 0 to 1: the largest share of trials that errored or were never run"),
    ] = None
    recheck: Annotated[
        Count | None,
        expects("a whole number, 1 or more: how often a failed task is repeated before it counts"),
    ] = None
    baseline: Annotated[Named | None, expects("the path of a baseline's file, from the suite's folder")] = (
        None
    )

    @property
    def has_rules(self) -> bool:
        """Whether the gate has any rule."""
        # An empty map and a false are no rules; a score of 0 is one.
        rules = (self.score, self.buckets or None, self.pass_hat_k, self.not_worse, self.better, self.errored)
        return any(rule is not None and rule is not False for rule in rules)

    @property
    def needs_baseline(self) -> bool:
        return bool(self.not_worse or self.better)


NO_GATE = Gate()


OneCharacter = Annotated[str, Meta(min_length=1, max_length=1)]
_FILLED = "; {{ column }} stands for a row's value"


class RowSource(Spec, frozen=True, kw_only=True):
    """A table, with what its name does not say: a file in another encoding, or one split of a dataset."""

    file: Annotated[Named | None, expects("the path of a .csv, .tsv, .jsonl or .json file")] = None
    encoding: Annotated[Named, expects("the name of an encoding, as in cp949")] = "utf-8"
    delimiter: Annotated[OneCharacter | None, expects("the character between cells")] = None
    dataset: Annotated[
        Named | None, expects("the name of a Hugging Face dataset, as in owner/name, or a saved one's folder")
    ] = None
    config: Annotated[Named | None, expects("the name of the dataset's configuration")] = None
    split: Annotated[Named | None, expects("the name of one of the dataset's splits")] = None
    revision: Annotated[Named | None, expects("the dataset's revision: a tag, a branch or a commit")] = None


class Rows(Spec, frozen=True, kw_only=True):
    """Rows that are tasks: a task as in a task file, in which ``{{ column }}`` stands for a row's value."""

    rows: Annotated[
        RowSource | NamedBesideOthers,
        expects(
            "the path of a .csv, .tsv, .jsonl or .json file, hf://owner/name, the folder of a saved "
            "dataset, or a map with `file` or `dataset`"
        ),
    ]
    input: Annotated[
        Map | NamedBesideOthers,
        expects(f"a column, whose text the agent is given, or a map as a task's input{_FILLED}"),
    ]
    graders: Annotated[tuple[Map, ...], Meta(min_length=1), expects(f"a list of 1 grader or more{_FILLED}")]
    id: Annotated[Named | None, expects(f"a column, or a text with columns in it{_FILLED}")] = None
    bucket: Annotated[Named | None, expects(f"a column, or a text with columns in it{_FILLED}")] = None
    where: Annotated[Map, expects("a map from columns to the value or values of the rows to use")] = NOTHING
    limit: Annotated[Count | None, expects("a whole number, 1 or more: the first so many rows")] = None
    split: Annotated[
        Named | None, expects(f"dev or held_out, or the name of one of the dataset's splits{_FILLED}")
    ] = None
    # Any value: a text may stand for a value of another kind. It is checked once the row is filled in.
    description: Annotated[Any, expects(f"a text{_FILLED}")] = None
    metadata: Annotated[Any, expects(f"a map{_FILLED}")] = None
    tags: Annotated[Any, expects(f"a list of texts without spaces{_FILLED}")] = None
    trials_per_run: Annotated[Any, expects("a whole number, 1 or more")] = None
    limits: Annotated[Any, expects("a map of limits: steps, seconds, tokens, cost_usd")] = None
    clock: Annotated[Any, expects("a date and time, as in 2026-05-25T09:00:00+09:00")] = None
    timeout_seconds: Annotated[Any, expects("a number of seconds above 0; `limits.seconds` overrides it")] = (
        None
    )
    agent: Annotated[Any, expects(f"the name of a registered agent{_FILLED}")] = None
    user: Annotated[Any, expects(f"a map of goal, persona and stop: the simulated user{_FILLED}")] = None
    settings: Annotated[Any, expects(f"a map of the agent's settings{_FILLED}")] = None
    prompts: Annotated[Any, expects(f"a map from names of prompts to paths of files{_FILLED}")] = None
    script: Annotated[Any, expects(f"a list of the replies that the scripted model gives{_FILLED}")] = None
    faults: Annotated[Any, expects("a list of faults: which tools fail on purpose, and how")] = None
    reference_solution: Annotated[Any, expects(f"a map: a solution of the task{_FILLED}")] = None

    def __post_init__(self) -> None:
        for value in (self.rows, self.input):
            check_named(value)


# A task is read only when tasks are: a suite is not broken because one of its tasks is.
TaskOrRows = Annotated[
    Map,
    OfKind("rows", Rows),
    Meta(extra_json_schema={"anyOf": [{"$ref": "#/$defs/Rows"}, {"$ref": "#/$defs/TaskOfSuite"}]}),
    expects("a task: a map with `input` and `graders`"),
]


# Keys with the same meaning as in a task file.
TASK_KEYS = (
    "description", "metadata", "tags", "trials_per_run", "limits", "clock", "timeout_seconds", "agent",
    "user", "settings", "prompts", "script", "faults", "reference_solution",
)  # fmt: skip


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
        """The names of the models; one name alone is a list of one."""
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
        expects("the name of a registered agent, or a map with one of call, command, cli and http"),
    ] = None
    model: Annotated[
        ModelNameBesideOthers | None, expects("the name of a model, or own: the agent chooses it")
    ] = None
    env: Annotated[Mapping[str, str], expects("a map of environment variables for a command")] = NOTHING
    env_pass: Annotated[
        tuple[Named, ...], expects("a list of variables that a command gets from pytest's environment")
    ] = ()
    proxy: Annotated[
        Mapping[str, str],
        expects("a map from environment variables to base addresses: requests to them are recorded"),
    ] = NOTHING
    http: Annotated[
        HttpRules, expects("a map of `models` and `ignore`: servers that the agent requests directly")
    ] = NO_HTTP_RULES
    kind: Annotated[Kind, expects("capability, regression or mixed")] = "mixed"
    regression: Annotated[Regression, expects("a map of `buckets` and `tasks` in which a miss fails")] = (
        NOTHING_PROMOTED
    )
    acts: Annotated[
        Acts, expects("a map of `files` and `tools`: changing or calling one counts as acting")
    ] = NOTHING_ACTS
    gate: Annotated[Gate, expects("a map: what a run must reach; else pytest's exit status is 1")] = NO_GATE
    defaults: Annotated[SuiteDefaults, expects("a map: defaults of its tasks")] = SuiteDefaults()
    prompts: Annotated[Paths, expects("a map from names of prompts to paths of files")] = NOTHING
    settings: Annotated[Map, expects("a map of the agent's settings")] = NOTHING
    tools: Annotated[
        tuple[NamedBesideOthers | ServedTools, ...],
        expects(
            "a list of tool files, names of registered toolsets, or maps {mcp: …}; `settings.tools` can "
            "choose among their tools"
        ),
    ] = ()
    cassettes: Annotated[
        tuple[Named, ...], expects("a list of shared cassettes, used after the task's own: files or folders")
    ] = ()
    on_miss: Annotated[OnMiss, expects("error or tool_error: what a missing recording becomes")] = "error"
    live: Annotated[
        bool, expects("true or false: whether the agent's own requests are sent without recording")
    ] = False
    require_reference_solution: Annotated[
        bool, expects("true or false: whether each task needs a reference_solution")
    ] = False
    task_pass_threshold: Annotated[Share, expects("a number from 0 to 1")] = 1.0
    tasks: Annotated[
        TaskOrRows | tuple[TaskOrRows, ...],
        Holds(is_no_map_of_tasks, "write each task as `- id: hello`, in a list"),
        expects(
            "a list of tasks, as in task files; a map with `rows`, `input` and `graders`, alone or in the "
            "list, makes a task of each row"
        ),
    ] = ()

    @property
    def tables(self) -> Mapping[KeyPath, Rows]:
        """The tables whose rows are tasks, by where each stands in the suite's file."""
        entries: dict[KeyPath, Map] = (
            {("tasks",): self.tasks}
            if isinstance(self.tasks, Mapping)
            else {("tasks", at): each for at, each in enumerate(self.tasks)}
        )
        return {at: from_builtins(Rows, each) for at, each in entries.items() if "rows" in each}

    def __post_init__(self) -> None:
        _ = self.tables  # refuses a wrong one
        if not is_no_map_of_tasks(self.tasks):
            raise ValueError("a map from names to tasks")
        for entry in self.tools:
            check_named(entry)
        check_named(self.agent)
        check_named(self.model)

    @property
    def agent_name(self) -> str | None:
        """The name of the agent: that of a registered one, or the title of its form."""
        return self.agent.title(self.name) if isinstance(self.agent, AgentForm) else self.agent

    def kind_of(self, task: str, bucket: str) -> Kind:
        """Give the kind of a task's trials: the suite's own, unless the task or its bucket is promoted."""
        promoted = self.regression
        return "regression" if bucket in promoted.buckets or task in promoted.tasks else self.kind


T = TypeVar("T")


class TaskSettings(FrozenValue, frozen=True):
    """A task's own values over those of its suite; command line and project settings come on top of these."""

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
    defaults = suite.defaults if suite else SuiteDefaults()
    shared = _over(suite.settings if suite else {}, defaults.settings)
    own, limits = task.limits, defaults.limits
    # Most tasks have no limits of their own, and share those of the suite.
    if own != Limits() or task.timeout_seconds is not None:
        limits = Limits(
            steps=own.steps or limits.steps,
            seconds=own.seconds or task.timeout_seconds or limits.seconds,
            tokens=own.tokens or limits.tokens,
            cost_usd=own.cost_usd or limits.cost_usd,
        )
    return TaskSettings(
        agent=task.agent or (suite.agent_name if suite else None),
        form=suite.agent if suite and not task.agent and isinstance(suite.agent, AgentForm) else None,
        trials=task.trials_per_run or defaults.trials_per_run or 1,
        limits=limits,
        clock=task.clock or defaults.clock,
        models=(suite.model,) if suite and suite.model else defaults.models,
        tags=tuple(dict.fromkeys((*defaults.tags, *task.tags))),
        settings=_over(shared, task.settings),
        prompts=_over(suite.prompts if suite else {}, task.prompts),
    )


def _over(base: Mapping[str, T], own: Mapping[str, T]) -> Mapping[str, T]:
    # Nothing is copied where one of the two is empty, as for most tasks.
    return {**base, **own} if base and own else own or base

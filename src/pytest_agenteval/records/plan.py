"""What is to be done in a trial, as plain data that can travel to another process.

Everything that is not data goes by the name under which it is registered."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec.structs import replace

from pytest_agenteval.records.record import NOTHING, Record, VersionedRecord, same_fields
from pytest_agenteval.text.formatting import MOST_NAME, one_line


class PriceTier(Record, frozen=True):
    """A price for requests with more than ``above`` prompt tokens; None keeps the lower tier's price."""

    above: int
    input: float | None = None
    output: float | None = None
    cached: float | None = None
    cache_write: float | None = None


class ModelPrice(Record, frozen=True):
    """A model's prices in USD per million tokens, and their date.

    ``cached`` are tokens of the prompt that came from the provider's cache, ``cache_write`` those that were
    written to it; None: they cost the same as other tokens of the prompt. Of ``tiers``, the highest one that
    a prompt exceeds holds for the whole request. ``as_of`` is a date, empty where none is given.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    as_of: str = ""

    @property
    def is_free(self) -> bool:
        """Whether it costs nothing, however many tokens a request has."""
        rates = (self.input, self.output, self.cached, self.cache_write)
        return not any(rates) and not self.tiers

    def at(self, prompt_tokens: int) -> ModelPrice:
        """Give the price of a request with so many tokens of prompt."""
        exceeded = [tier for tier in self.tiers if prompt_tokens > tier.above]
        if not exceeded:
            return self
        tier = max(exceeded, key=lambda tier: tier.above)
        rates = {name: getattr(tier, name) for name in ("input", "output", "cached", "cache_write")}
        return replace(self, tiers=(), **{name: rate for name, rate in rates.items() if rate is not None})


# The user's own prices of models. The keys are aliases, ids, or ids without their provider.
Prices: TypeAlias = Mapping[str, ModelPrice]

NO_PRICES: Prices = NOTHING


def own_price(prices: Prices, *names: str) -> ModelPrice | None:
    """Give the user's own price of a model with these names; None where the user gave none."""
    if not prices:
        return None
    # The user may name a model without its provider.
    by_bare_name = {_bare(key): price for key, price in prices.items()}
    for name in filter(None, names):
        price = prices.get(name) or by_bare_name.get(_bare(name))
        if price is not None:
            return price
    return None


def _bare(name: str) -> str:
    # In litellm's ids the provider comes first, as in ``openai/gpt-6``.
    return name.partition("/")[2] or name


RecordMode = Literal["off", "none", "once", "new_episodes", "all"]
Kind = Literal["capability", "regression", "mixed"]
"""A suite's kind: in a capability suite a low score is missed, in any other it fails."""
# Tasks of ``dev`` are what people work on. Tasks of ``held_out`` stay unseen until they confirm a change.
Split = Literal["dev", "held_out"]
# Whether the agent should act (positive) or refrain (negative); empty where the task does not say.
Label = Literal["", "positive", "negative"]


class TrialKey(NamedTuple):
    """Identifies a trial within a run; ``repetition`` counts from 1."""

    suite: str
    task: str
    agent: str
    model: str
    variant: str
    repetition: int

    @property
    def label(self) -> str:
        """The trial in one text, whole and as it was named: ``travel/cheapest_flight[claude@short-1]``."""
        variant = f"@{self.variant}" if self.variant else ""
        return f"{self.suite}/{self.task}[{self.model}{variant}-{self.repetition}]"


# What providers append to the name of a model in their replies: a date or a version.
_LATER_PART = r"(?:[-@:](?:\d{3,}[\d-]*|latest|preview[\w-]*|v\d[\d:]*))*"

# The model of an agent that calls models of its own. Its requests show which.
OWN_MODEL = "own"


# How a real model is reached: directly, over our own connections, or by litellm; empty for other models.
Via: TypeAlias = Literal["", "direct", "litellm"]


def is_same_model(named: str, other_name: str) -> bool:
    """Whether two names are of the same model, with or without a provider, a date or a version."""
    # The longer name may have a later part behind the shorter one.
    one, other = sorted((name.rpartition("/")[2].lower() for name in (named, other_name)), key=len)
    return other.startswith(one) and re.fullmatch(_LATER_PART, other[len(one) :]) is not None


class Model(Record, frozen=True):
    """The model of an agent or a judge.

    ``name`` is what the user typed and reports show; ``id`` an offline model's name or a litellm id.
    ``params`` go to the provider with every request (``api_base``, ``temperature``, …); ``api_key_env``
    names the variable with the key. ``via`` is how a request reaches the provider.
    """

    name: str
    id: str
    offline: bool = False
    params: Mapping[str, Any] = NOTHING
    api_key_env: str = ""
    via: Via = ""


class PlannedGrader(Record, frozen=True):
    """A grader's name, settings and weight in a plan."""

    name: str
    label: str
    config: Mapping[str, Any] = NOTHING
    weight: float = 1.0
    threshold: float | None = None
    required: bool = False


class McpServer(Record, frozen=True):
    """An MCP server: a command that starts it, or its address.

    ``${NAME}`` in ``command``, ``env``, ``url`` and ``headers`` stands for a variable of the environment, and
    is filled in where the server is reached: no plan holds its value. The program starts in ``folder``, which
    is the suite's, or in ``cwd`` below it. The tools named in ``only`` are offered, or all; ``prefix`` is put
    before their names. Each trial has a server of its own, or the whole process ``share``s one. ``seconds``
    is how long a call may take. ``schemas`` is the cassette with its tools.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = NOTHING
    headers: Mapping[str, str] = NOTHING
    folder: str = ""
    cwd: str = ""
    only: tuple[str, ...] = ()
    prefix: str = ""
    share: Literal["trial", "session"] = "trial"
    seconds: float = 60.0
    schemas: str = ""

    @property
    def title(self) -> str:
        """What messages call it: its command in one line, or its address."""
        return shlex.join(self.command) if self.command else self.url


class Allowance(Record, frozen=True):
    """The limits of a trial; None is no limit."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost_usd: float | None = None


class PlannedTask(Record, frozen=True):
    """One task with its suite's defaults filled in.

    ``layers`` are the folders that make the starting workspace, lowest first, and ``texts`` the files that
    are written into it, by path. ``prompts`` holds the texts that replace the agent's own templates of the
    same name. ``reference`` and ``script`` are for offline models only.

    ``file`` is the task's file as a terminal can jump to it, ``file_in_root`` the same from pytest's rootdir,
    wherever the run is started. Where a task is a row of a table, ``row_file`` is that table, from pytest's
    rootdir, and ``line`` counts in it.

    ``cassette`` is the path of the task's recordings without its ending, ``shared`` are those of the suite,
    which come after it. ``tools`` are tool files, names of toolsets, or servers; ``faults`` say which tools
    fail on purpose. ``live`` allows requests that the agent makes by itself, unless the run's conditions
    decide that.

    ``label`` says whether the agent should act. It acted if it changed one of ``acting_files`` (paths and
    globs of the workspace), or called one of ``acting_tools``.

    ``form`` says where an agent is that nobody has registered, with the suite's ``folder``, ``env``,
    ``env_pass``; ``proxy`` and ``model_hosts`` are addresses of servers that an agent calls by itself,
    ``ignored_hosts`` those that get an empty answer in a replay. ``user`` describes the person whom a model
    plays in the trial: ``persona``, ``goal``, ``stop``, ``most_turns``.
    """

    suite: str
    id: str
    agent: str
    kind: Kind
    bucket: str
    graders: tuple[PlannedGrader, ...]
    input: Mapping[str, Any] = NOTHING
    file: str = ""
    line: int = 1
    file_in_root: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    settings: Mapping[str, Any] = NOTHING
    prompts: Mapping[str, str] = NOTHING
    layers: tuple[str, ...] = ()
    texts: Mapping[str, str] = NOTHING
    limits: Allowance = Allowance()
    clock: str | None = None
    reference: Mapping[str, Any] | None = None
    script: tuple[Mapping[str, Any], ...] | None = None
    split: Split = "dev"
    repetitions: int = 1
    cassette: str = ""
    shared: tuple[str, ...] = ()
    tools: tuple[str | McpServer, ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    on_miss: Literal["error", "tool_error"] = "error"
    live: bool = False
    label: Label = ""
    acting_files: tuple[str, ...] = ()
    acting_tools: tuple[str, ...] = ()
    row_file: str = ""
    form: Mapping[str, Any] = NOTHING
    proxy: Mapping[str, str] = NOTHING
    model_hosts: tuple[str, ...] = ()
    ignored_hosts: tuple[str, ...] = ()
    user: Mapping[str, Any] = NOTHING


def task_facts(task: PlannedTask) -> dict[str, Any]:
    """Give what a trial repeats of its task, by the names of the trial's fields."""
    return same_fields(task, ("kind", "bucket", "tags", "label", "split")) | {"file": task.file_in_root}


class Conditions(Record, frozen=True):
    """What all trials of a run share: recording, judges, seed, folders.

    ``live`` says whether requests that agents make by themselves are sent without a tape; None leaves that to
    the task. With ``loopback``, those that an agent makes to this machine need no permission: they are sent
    where the trial has no recording. ``user`` is the model that plays the users of tasks that describe one,
    ``prices`` are the user's own prices of models.
    """

    record: RecordMode = "none"
    record_chat: RecordMode = "off"
    judges: tuple[Model, ...] = ()
    seed: int = 0
    keep_workspaces: str = ""
    live: bool | None = None
    user: Model | None = None
    prices: Mapping[str, ModelPrice] = NOTHING
    loopback: bool = False


class Variant(Record, frozen=True):
    """A named set of prompt texts, read from ``source``; the unnamed one changes nothing."""

    name: str = ""
    prompts: Mapping[str, str] = NOTHING
    source: str = ""


class Plan(VersionedRecord, frozen=True):
    """One trial to run."""

    task: PlannedTask
    model: Model
    variant: Variant = Variant()
    repetition: int = 1
    attempt: int = 1
    conditions: Conditions = Conditions()

    @property
    def key(self) -> TrialKey:
        """The key that distinguishes this trial from all others of its run."""
        task = self.task
        return TrialKey(task.suite, task.id, task.agent, self.model.name, self.variant.name, self.repetition)

    @property
    def live(self) -> bool:
        """Whether requests that the agent makes by itself are sent without a tape."""
        return self.task.live if self.conditions.live is None else self.conditions.live

    @property
    def asks_own_models(self) -> bool:
        """Whether requests to models that the agent makes by itself may be sent, where they are not taped."""
        return self.live or not (self.model.offline or self.model.id == OWN_MODEL)

    @property
    def seed(self) -> int:
        """The trial's own seed: the run's seed moved by the repetition, equal for every model."""
        return self.conditions.seed + self.repetition


def own_label(model: str, own_models: Sequence[str]) -> str:
    """Write a model or, in its place, those that the agent called by itself: ``own: gpt-6``."""
    return f"{OWN_MODEL}: {', '.join(own_models)}" if own_models else model


def trial_name(key: TrialKey) -> str:
    """Write the key of a trial on one line: ``travel/cheapest_flight[claude@short-1]``."""
    return one_line(key.label, MOST_NAME)

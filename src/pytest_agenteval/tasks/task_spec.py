"""What a task file may hold: kinds of values, each with its rule in words, and the task made of them.

A description here, or at a field, is the *expected* line of an error and the text of the JSON Schema. msgspec
reads values by these rules, and ``validation`` finds what is wrong with a value that it refuses.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from pytest_agenteval.records.plan import Split
from pytest_agenteval.records.record import NOTHING, FrozenValue
from pytest_agenteval.text.json_values import compact_json

# Memex's spelling of a key, and ours; both are read.
SPELLINGS: Mapping[str, str] = {
    "agent_name": "agent",
    "requireReferenceSolution": "require_reference_solution",
    "sampleTranscript": "sample_transcript",
    "taskPassThreshold": "task_pass_threshold",
}

# The largest number that JSON can hold, which excludes infinity.
LARGEST = sys.float_info.max
# ``fromisoformat`` takes more than this: a date without a time, a day by its week.
_CLOCK = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?"


class Spec(FrozenValue, frozen=True, forbid_unknown_fields=True):
    """Base of everything an author writes: unknown keys are mistakes, values are frozen."""

    def to_json(self) -> dict[str, Any]:
        """Give the spec as JSON values, with lists for tuples and with all defaults."""
        # A file holds only values that JSON has, so that writing and reading them changes nothing.
        value: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return value


class TwoSpellings(Spec, frozen=True):
    """A spec of which some keys may also have the spelling that Memex uses."""


def expects(text: str) -> Meta:
    """Say what a field takes: the *expected* line of an error about it."""
    return Meta(description=text)


class Holds(NamedTuple):
    """A rule that the spec's own ``__post_init__`` checks, not msgspec; the hint is for what breaks it."""

    rule: Callable[[Any], bool]
    hint: str = ""


class OfKind(NamedTuple):
    """Which spec a map with this key has to be, beside other maps that are read later."""

    key: str
    kind: type[Spec]


def is_clock(text: str) -> bool:
    """Whether a text is a date and a time of day, perhaps with seconds and an offset."""
    if not re.fullmatch(_CLOCK, text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_clock(text: str | None) -> None:
    """Raise ValueError for a text that is no clock."""
    if text is not None and not is_clock(text):
        raise ValueError("not a date and a time")


def is_named(text: str) -> bool:
    """Whether a text is not blank."""
    return bool(text.strip())


def check_named(value: object) -> None:
    """Raise ValueError for a blank text."""
    if isinstance(value, str) and not is_named(value):
        raise ValueError("a blank text")


# \Z is the end of a text. Python's $ also matches before a line end that comes last.
Named = Annotated[str, Meta(pattern=r"\S", description="a text that is not blank")]
# For unions with lists or maps: there msgspec 0.22 frees a pattern twice, and Python crashes.
_NOT_BLANK = Meta(extra_json_schema={"pattern": r"\S"})
NamedBesideOthers = Annotated[str, Holds(is_named), _NOT_BLANK, expects("a text that is not blank")]
Tag = Annotated[str, Meta(pattern=r"^\S+\Z", description="a text without spaces")]
Id = Annotated[str, Meta(pattern=r"^[^\s/\\:\[\]]+\Z")]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[str, Meta(pattern="^[1-9][0-9]*[kmgKMG]$")]
Tokens = Annotated[int, Meta(ge=0)]
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Positive = Annotated[float, Meta(gt=0, le=LARGEST)]
AtLeastZero = Annotated[float, Meta(ge=0, le=LARGEST)]
Share = Annotated[float, Meta(ge=0, le=1)]
Tolerance = Annotated[float, Meta(gt=0, lt=1)]
Map = Mapping[str, Any]
Paths = Mapping[str, Annotated[str, Meta(pattern=r"\S", description="the path of a prompt file")]]
Shares = Mapping[str, Annotated[float, Meta(ge=0, le=1, description="a number from 0 to 1")]]
ModelName = Annotated[str, Meta(pattern=r"\S", description="the name of a model")]
ModelNameBesideOthers = Annotated[str, Holds(is_named), _NOT_BLANK, expects("the name of a model")]
ClockText = Annotated[str, Holds(is_clock)]


class McpSpec(Spec, frozen=True, kw_only=True):
    """Where a server is that speaks MCP: either a command that starts one, or an address."""

    command: Annotated[tuple[Named, ...], expects("a list: the program and its arguments")] = ()
    env: Annotated[Mapping[str, str], expects("a map from variables to texts; ${NAME} is one of yours")] = (
        NOTHING
    )
    cwd: Annotated[str, expects("the folder it starts in, from the suite's folder")] = ""
    url: Annotated[str, expects("an address: http://… or https://…")] = ""
    headers: Annotated[
        Mapping[str, str], expects("a map from headers to texts; ${NAME} is a variable of yours")
    ] = NOTHING


class ServedTools(Spec, frozen=True, kw_only=True):
    """Tools of a server that speaks MCP: which server, which of its tools, and for how long it runs."""

    mcp: Annotated[McpSpec, expects("a map: `command`, which starts the server, or `url`")]
    only: Annotated[tuple[Named, ...], expects("a list of names of its tools (default: all)")] = ()
    prefix: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{0,40}\Z")],
        expects("letters, digits, _ and -, put before the name of each tool"),
    ] = ""
    share: Annotated[
        Literal["trial", "session"], expects("trial: one server per trial; session: one per process")
    ] = "trial"
    seconds: Annotated[Positive, expects("a number of seconds above 0: how long a call may take")] = 60.0


class AgentForm(Spec, frozen=True, kw_only=True, rename={"shape": "as"}):
    """An agent that nobody has registered: a Python function, a command, a CLI, or an HTTP endpoint."""

    call: Annotated[
        Named | None, expects("the agent, as package.module:name: a function, an object with run, or a class")
    ] = None
    command: Annotated[tuple[Named, ...] | None, expects("a list of texts: a program and its arguments")] = (
        None
    )
    cli: Annotated[Named | None, expects("the name of a ready-made agent, such as claude-code")] = None
    http: Annotated[Named | None, expects("the address of an endpoint: http://...")] = None
    name: Annotated[Named | None, expects("a text: what reports call the agent")] = None
    loop: Annotated[
        Literal["own", "shared"], expects("own or shared: an event loop per trial, or one for all")
    ] = "own"
    args: Annotated[
        Mapping[str, str] | tuple[Named, ...],
        expects(
            "a map from the function's parameters to their values: {q: content}; for `cli`, a list of "
            "more arguments"
        ),
    ] = NOTHING
    output: Annotated[
        Literal["events", "text"], expects("events or text: what a command's standard output is")
    ] = "events"
    image: Annotated[Named | None, expects("the image of a container in which a command runs")] = None
    files: Annotated[
        tuple[Named, ...], expects("a list of files and folders beside suite.yaml that a container can read")
    ] = ()
    memory: Annotated[Size, expects("the most memory of a container, as in 512m or 2g")] = "2g"
    processes: Annotated[Count, expects("a whole number, 1 or more: the most processes of a container")] = 256
    disk: Annotated[Size, expects("the most that a container writes to its folders, as in 512m or 1g")] = "1g"
    shape: Annotated[
        Literal["json", "openai", "anthropic"],
        expects("json, openai or anthropic: the shape of an endpoint's requests and replies"),
    ] = "json"
    headers: Annotated[
        Mapping[str, str], expects("a map of HTTP headers; ${NAME} is an environment variable")
    ] = NOTHING
    body: Annotated[Map | None, expects("a map: the JSON body that an endpoint is sent")] = None
    answer: Annotated[Named | None, expects("the path of the answer's text in an endpoint's reply")] = None
    state: Annotated[Named | None, expects("the path of the end state in an endpoint's reply")] = None
    calls: Annotated[Named | None, expects("the path of the tool calls in an endpoint's reply")] = None
    usage: Annotated[Named | None, expects("the path of the token counts in an endpoint's reply")] = None
    request_seconds: Annotated[
        Positive | None, expects("a number of seconds above 0: how long one request to an endpoint may take")
    ] = None
    otel: Annotated[bool, expects("true or false: whether to read its OpenTelemetry spans")] = False
    via: Annotated[
        Literal["bridge", "provider"] | None,
        expects("bridge or provider: who answers its requests to models where a run names a model"),
    ] = None

    def title(self, suite: str) -> str:
        """Give what reports call the agent: its name, else what says where it is."""
        if self.name:
            return self.name
        if self.call:
            return self.call
        if self.http:
            return f"{suite}:{(self.http.partition('://')[2] or self.http).partition('/')[0]}"
        if self.cli:
            return f"{suite}:{self.cli}"
        programs = [part for part in self.command or () if not part.startswith("-")]
        # Paths of Windows have backslashes.
        return f"{suite}:{programs[-1].replace(chr(92), '/').rpartition('/')[2] if programs else ''}"


class HttpRules(Spec, frozen=True, kw_only=True):
    """What is to be known of the servers that an agent asks by itself."""

    models: Annotated[
        tuple[Named, ...], expects("a list of addresses of model servers whose paths are unusual")
    ] = ()
    ignore: Annotated[
        tuple[Named, ...], expects("a list of hosts, as *.sentry.io, that are answered 204 in a replay")
    ] = ()


NO_HTTP_RULES = HttpRules()


class UserSpec(Spec, frozen=True, kw_only=True):
    """A person whom a model plays: who they are, what they want, and when they are done."""

    goal: Annotated[Named, expects("a text: what the user wants, with all that they know")]
    persona: Annotated[str, expects("a text: who the user is, and how they write")] = ""
    stop: Annotated[str, expects("a text: when the user is done")] = ""
    most_turns: Annotated[Count | None, expects("a whole number, 1 or more: how often the user speaks")] = (
        None
    )


SOURCES = ("manual", "captured", "synthesized")
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


class GraderSpec(Spec, frozen=True, kw_only=True):
    """Which grader to apply, how it is set, and how much it weighs."""

    name: Annotated[Named, expects("the name of a registered grader")]
    config: Annotated[Map, expects("a map of the grader's own settings")] = NOTHING
    weight: Annotated[Positive, expects("a number above 0")] = 1.0
    threshold: Annotated[Share | None, expects("a number from 0 to 1: the score to reach")] = None
    require: Annotated[bool, expects("true or false: whether an undecided grade is an error")] = False
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
        Count | None, expects("a whole number, 1 or more: how many calls fail (default: every call)")
    ] = None
    after: Annotated[Tokens, expects("a whole number, 0 or more: how many calls succeed first")] = 0
    seconds: Annotated[
        Positive, expects("a number of seconds above 0: how much longer a slow tool takes")
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
        # Memex reads unknown sources as manual, too.
        if self.source not in SOURCES:
            force_setattr(self, "source", "manual")


class Task(Spec, frozen=True, kw_only=True):
    """One question for an agent, where it starts, and how its answer is graded."""

    id: Annotated[Id, expects("a text with no space, slash, colon or bracket")]
    description: Annotated[str, expects("a text: what the task is about")] = ""
    input: Annotated[NamedBesideOthers | Map, expects("a text, or a map: what the agent is given")]
    metadata: Annotated[Mapping[str, Any], expects("a map; `failure_bucket` names the bucket")] = NOTHING
    tags: Annotated[tuple[Tag, ...], expects("a list of texts without spaces")] = ()
    graders: Annotated[tuple[GraderSpec, ...], Meta(min_length=1), expects("a list of 1 grader or more")]
    trials_per_run: Annotated[Count | None, expects("a whole number, 1 or more")] = None
    timeout_seconds: Annotated[
        Positive | None, expects("a number of seconds above 0; `limits.seconds` overrides it")
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
    reference_solution: Annotated[ReferenceSolution | None, expects("a map: a solution of the task")] = None
    user: Annotated[UserSpec | None, expects("a map of goal, persona and stop: the simulated user")] = None

    @property
    def input_map(self) -> Map:
        """The input as a map: a text alone is its ``content``."""
        return {"content": self.input} if isinstance(self.input, str) else self.input

    def __post_init__(self) -> None:
        check_clock(self.clock)
        check_named(self.input)
        if not all(isinstance(value, str) for value in self.metadata.values()):
            values = self.metadata.items()
            texts = {key: value if isinstance(value, str) else compact_json(value) for key, value in values}
            force_setattr(self, "metadata", texts)

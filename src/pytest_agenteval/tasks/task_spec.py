"""What a task's file says: one frozen value for each thing that its author writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.structs import force_setattr

from pytest_agenteval.records.plan import Split
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.tasks.agent_specs import UserSpec
from pytest_agenteval.tasks.field_types import (
    AtLeastZero,
    ClockText,
    Count,
    Id,
    Map,
    Named,
    Paths,
    Positive,
    Share,
    Spec,
    Tag,
    Tokens,
    TwoSpellings,
    check_clock,
    expects,
)
from pytest_agenteval.text.json_values import compact_json

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
                key: value if isinstance(value, str) else compact_json(value)
                for key, value in self.metadata.items()
            }
            force_setattr(self, "metadata", texts)

"""The columns of trials and grades, which journals alone can fill."""

from __future__ import annotations

from typing import Any, NamedTuple

from pytest_agenteval.store.journal_entry import JournalEntry
from pytest_agenteval.store.rows.columns import Column, column, optional


class TrialSource(NamedTuple):
    """What a row of a trial is made of; ``part`` is its grade, call or message, by ``position`` from 1."""

    run: str
    entry: JournalEntry
    part: Any = None
    position: int = 0


TRIAL_KEY: tuple[Column, ...] = (
    column("run", "text", "run", "the run's name, as `agenteval runs` lists it"),
    column("trial", "text", "entry.key.label", "which trial: `suite/task[model@variant-repetition]`"),
    column("suite", "text", "entry.key.suite", "the suite"),
    column("bucket", "text", "entry.bucket", "the bucket of the task; may be empty"),
    column("task", "text", "entry.key.task", "the task's id"),
    column("agent", "text", "entry.key.agent", "who acted"),
    column("model", "text", "entry.key.model", "what the agent thought with, as it was named"),
    column("variant", "text", "entry.key.variant", "the prompt variant; empty for the agent's own prompts"),
    optional("repetition", "integer", "entry.key.repetition", "which repetition, from 1"),
    optional("attempt", "integer", "entry.attempt", "which attempt it was that counts, from 1"),
    column("ending", "text", "entry.ending", "`passed`, `missed`, `failed` or `errored`"),
)
"""What the rows of trials, grades, calls and messages have in common, by which they are joined."""


def _score(source: TrialSource) -> float | None:
    return source.entry.score if source.entry.averaged else None


def _passed(source: TrialSource) -> bool | None:
    return source.entry.ending == "passed" if source.entry.averaged else None


def _undecided(source: TrialSource) -> int:
    return sum(grade.score is None for grade in source.entry.grades)


def _origin(source: TrialSource) -> str | None:
    origin = source.entry.origin
    return origin.run or None if origin is not None else None


TRIALS: tuple[Column, ...] = (
    *TRIAL_KEY,
    column("kind", "text", "entry.kind", "of the task: `capability`, `regression` or `mixed`"),
    column("file", "text", "entry.file", "the task's file, from pytest's rootdir"),
    column("tags", "texts", "entry.tags", "the task's tags"),
    column("label", "text", "entry.label", "whether the agent should act: `positive`, `negative` or empty"),
    column("doubtful_events", "json", "entry.doubtful_events", "what makes it doubtful, how often"),
    column("own_models", "texts", "entry.own_models", "models that the agent asked by itself"),
    optional("split", "text", "entry.split", "of the task: `dev` or `held_out`; none where nobody knows"),
    optional("acted", "flag", "entry.acted", "whether it did, where there is a label"),
    optional("score", "number", _score, "0..1; none where the trial errored: it is in no average"),
    optional("passed", "flag", _passed, "whether it passed; none where there is no score"),
    column("all_full", "flag", "entry.full", "whether it passed with every decided grade at 1"),
    column("grade_count", "integer", lambda source: len(source.entry.grades), "how many grades it has"),
    column("undecided_count", "integer", _undecided, "how many of them have no score"),
    column("limit_reached", "text", "entry.limit", "which of the trial's own limits ran out; mostly empty"),
    column("cause", "text", "entry.cause", "why it errored, one word of docs/endings.md; mostly empty"),
    column("message", "text", "entry.message", "what the error said, cut at 300 characters"),
    optional("started_at", "time", "entry.started_at", "when the attempt began"),
    optional(
        "seconds", "number", "entry.elapsed_seconds", "how long the agent took, without waiting for a slot"
    ),
    optional("charged_seconds", "number", "entry.charged_seconds", "what of it its limit `seconds` counts"),
    optional(
        "input_tokens",
        "integer",
        "entry.usage.input_tokens",
        "what the model was sent; like all figures of usage, none where not known",
    ),
    optional("output_tokens", "integer", "entry.usage.output_tokens", "what it replied"),
    optional("cached_tokens", "integer", "entry.usage.cached_tokens", "of the input, from a cache"),
    optional("reasoning_tokens", "integer", "entry.usage.reasoning_tokens", "of the output"),
    optional("cost_usd", "number", "entry.usage.cost_usd", "none where a price is not known"),
    optional("replies", "integer", "entry.usage.asks", "how often the model replied"),
    optional("requests", "integer", "entry.usage.attempts", "how often it was asked, retries too"),
    optional("attempts", "integer", "entry.attempts", "how often the trial was begun"),
    optional("all_tokens", "integer", "entry.all_tokens", "input and output of all attempts"),
    optional("all_cost_usd", "number", "entry.all_cost_usd", "what all attempts cost"),
    optional("all_seconds", "number", "entry.all_seconds", "the time of all attempts, as reports sum"),
    optional("judge_tokens", "integer", "entry.judging.tokens", "what judges took, in no sum above"),
    optional("judge_cost_usd", "number", "entry.judging.cost_usd", "none where not known"),
    optional("user_tokens", "integer", "entry.simulating.tokens", "what a simulated user took, likewise"),
    optional("user_cost_usd", "number", "entry.simulating.cost_usd", "none where not known"),
    optional("judge_replies", "integer", "entry.judging.asks", "how often judges replied"),
    optional("tool_hits", "integer", "entry.tool_tape.hits", "tool calls that a tape played"),
    optional("tool_misses", "integer", "entry.tool_tape.misses", "that were not recorded"),
    optional("tool_recorded", "integer", "entry.tool_tape.recorded", "that were made and recorded"),
    optional("chat_hits", "integer", "entry.chat_tape.hits", "replies that a tape played"),
    optional("chat_misses", "integer", "entry.chat_tape.misses", "that were not recorded"),
    optional("chat_recorded", "integer", "entry.chat_tape.recorded", "that were asked and recorded"),
    optional("origin", "text", _origin, "the run that carried it out, where this one took it over"),
    column("input_digest", "text", "entry.digests.input", "of what the agent was given; equal: the same"),
    column("fixture_digest", "text", "entry.digests.fixture", "of where it started"),
    column("prompt_digest", "text", "entry.digests.prompt", "of its prompts"),
    column("settings_digest", "text", "entry.digests.settings", "of its settings"),
    column("tools_digest", "text", "entry.digests.tools", "of its tools"),
    column("code_digest", "text", "entry.digests.code", "of its own source files"),
    column("model_digest", "text", "entry.digests.model", "of the model and its parameters"),
    column("ruler_digest", "text", "entry.digests.ruler", "of all graders, their settings and judges"),
)


def _ruler(source: TrialSource) -> str:
    return str(source.entry.digests.graders.get(source.part.grader, ""))


OWN_GRADE_COLUMNS: tuple[Column, ...] = (
    column("position", "integer", "position", "which of the trial's grades, from 1"),
    column("grader", "text", "part.grader", "the grader's label"),
    optional("score", "number", "part.score", "0..1; none where the grader could not tell"),
    optional("value", "number", "part.value", "what was measured, also past 0..1"),
    optional("passed", "flag", "part.passed", "whether the score reached the threshold"),
    column("threshold", "number", "part.threshold", "the score to be reached"),
    column("weight", "number", "part.weight", "how much it counts in the trial's score"),
    column("required", "flag", lambda source: bool(source.part.required), "whether no trial does without it"),
    column("undecided", "text", "part.undecided", "why there is no score, one word of docs/endings.md"),
    column("rationale", "text", "part.rationale", "the reason, cut at 160 characters"),
    column("grader_digest", "text", _ruler, "its version, a colon, a digest of its settings and judges"),
)
"""What is said of a grade, beside whose it is."""

GRADES = (*TRIAL_KEY, *OWN_GRADE_COLUMNS)

"""The columns of tool calls and messages, for which transcripts are read."""

from __future__ import annotations

from pytest_agenteval.records.transcript import ToolCall
from pytest_agenteval.store.rows.columns import Column, column, optional
from pytest_agenteval.store.rows.trial_columns import TRIAL_KEY, TrialSource


def _seconds(source: TrialSource) -> float:
    call: ToolCall = source.part
    return call.ended - call.started


CALLS: tuple[Column, ...] = (
    *TRIAL_KEY,
    column("position", "integer", "position", "which of the trial's calls, from 1"),
    optional("turn", "integer", "part.turn", "which of the model's replies asked for it, from 1"),
    optional("index", "integer", "part.index", "which of that reply's calls, from 0"),
    column("call_id", "text", "part.id", "what the model called it"),
    column("tool", "text", "part.tool", "the tool"),
    column("args", "json", "part.args", "the arguments, a JSON object"),
    optional("raw_args", "text", "part.raw_args", "their text, where it was no JSON object"),
    optional("result", "json", "part.result", "what the tool gave, any JSON value"),
    optional(
        "error_type",
        "text",
        lambda source: source.part.error and source.part.error.type,
        "the kind of error, where it failed",
    ),
    optional(
        "error",
        "text",
        lambda source: source.part.error and source.part.error.message,
        "what the agent was told then",
    ),
    optional("started", "number", "part.started", "seconds since the trial began"),
    optional("ended", "number", "part.ended", "seconds since the trial began"),
    optional("seconds", "number", _seconds, "how long it took"),
    column("called_by", "text", "part.by", "`agent`, or `seed` where the call was given"),
    column("tape", "text", "part.tape", "`hit`, `miss`, `live` or `none`"),
)

MESSAGES: tuple[Column, ...] = (
    *TRIAL_KEY,
    column("position", "integer", "position", "which of the trial's messages, from 1"),
    column("role", "text", "part.role", "`system`, `user`, `assistant` or `tool`"),
    column("content", "text", "part.content", "the whole text"),
    optional("turn", "integer", "part.turn", "which of the model's replies it belongs to; 0: none"),
    optional("phase", "integer", "part.phase", "which conversation, from 1"),
    optional("seeded", "flag", "part.seeded", "whether it was given and not said"),
    column("call_count", "integer", lambda source: len(source.part.calls), "how many calls it asks for"),
    column("call_id", "text", "part.call_id", "the call that a tool's message answers; else empty"),
)

"""What was said and called, in the form that OpenTelemetry's ``gen_ai.*.messages`` have.

A span's attribute holds no maps: the conventions allow their JSON text in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pytest_agenteval.cassettes.transcripts.spans import (
    CALL_ARGUMENTS,
    CALL_RESULT,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    TOOL_DEFINITIONS,
)
from pytest_agenteval.records.transcript import Ask, Message, ToolCall, Transcript
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.trial.conversation import call_requests, reply_asks
from pytest_agenteval.text.canonical import compact


def chat_content(transcript: Transcript, reply: int, ask: Ask) -> dict[str, str]:
    """Give what a model was sent, the whole conversation up to there, and what it replied."""
    reply_message = transcript.messages[reply]
    history = [message for message in transcript.messages[:reply] if message.phase == reply_message.phase]
    output = _message(reply_message)
    if ask.reasoning:
        output["parts"].insert(0, {"type": "reasoning", "content": ask.reasoning})
    return {
        INPUT_MESSAGES: _messages_json(map(_message, history)),
        OUTPUT_MESSAGES: _messages_json([output]),
    }


def trial_content(trial: Trial) -> dict[str, str]:
    """Give what an agent was given to say, up to the first reply, and its answer."""
    messages, replies = trial.transcript.messages, reply_asks(trial.transcript)
    prompt = messages[: min(replies, default=len(messages))]
    answer = {"role": "assistant", "parts": [{"type": "text", "content": trial.outcome.answer.text}]}
    return {
        INPUT_MESSAGES: _messages_json(map(_message, prompt)),
        OUTPUT_MESSAGES: _messages_json([answer] if trial.outcome.answer.text else []),
        TOOL_DEFINITIONS: _messages_json(tool.declaration() for tool in trial.transcript.tools),
    }


def call_content(call: ToolCall) -> dict[str, str | None]:
    """Give what a tool was called with and, where it did not fail, what came of it."""
    result = call.result if isinstance(call.result, str) else compact(call.result)
    return {
        CALL_ARGUMENTS: call.raw_args or compact(call.args),
        CALL_RESULT: result if call.error is None else None,
    }


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": list(_parts(message))}


def _parts(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        yield {"type": "tool_call_response", "id": message.call_id, "response": message.content}
        return
    if message.content:
        yield {"type": "text", "content": message.content}
    for call in call_requests(message):
        arguments = dict(call.args) if call.raw_args is None else call.raw_args
        yield {"type": "tool_call", "id": call.id, "name": call.tool, "arguments": arguments}


def _messages_json(messages: Iterable[dict[str, Any]]) -> str:
    listed = list(messages)
    return compact(listed) if listed else ""

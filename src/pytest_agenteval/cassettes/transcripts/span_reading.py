"""Spans as a transcript: replies in the order of their requests, each call with its times and its result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pytest_agenteval.cassettes.transcripts.builder import UNFINISHED, UNKNOWN_USAGE
from pytest_agenteval.cassettes.transcripts.span_dialects import (
    OpenAIMessage,
    SpanCall,
    call_of,
    is_call,
    is_reply,
    reply_of,
)
from pytest_agenteval.cassettes.transcripts.spans import Span
from pytest_agenteval.records.recorder import Recorder, is_ended
from pytest_agenteval.records.tool_spec import parse_arguments, shown_value
from pytest_agenteval.records.transcript import Ask, ToolCall, ToolError, Transcript


def read_spans(spans: Iterable[Span], began_ns: int | None = None) -> Transcript:
    """Give what spans of models and tools tell; any other, and a model's within a model's, is passed over.

    ``began_ns`` is when the trial began, in nanoseconds since 1970; None takes the first span's start. What a
    model was shown of a call is its result; where it was not asked again, the tool's own span says it.
    """
    ordered = sorted(spans, key=lambda span: span.start_ns)
    reader = _Reader(ordered[0].start_ns if began_ns is None and ordered else began_ns or 0)
    replies = {span.span_id for span in ordered if is_reply(span)}
    parents = {span.span_id: span.parent_id for span in ordered}
    for span in ordered:
        if is_reply(span) and not _is_within(span.parent_id, replies, parents):
            reader.read_reply(span)
    for span in ordered:
        if is_call(span):
            reader.read_call(span)
    return reader.transcript()


def _is_within(parent: str, replies: set[str], parents: dict[str, str]) -> bool:
    """Whether a span's parent, or one above it, is a reply: two instrumentations tell of one request."""
    for _ in range(len(parents)):
        if not parent or parent in replies:
            break
        parent = parents.get(parent, "")
    return bool(parent)


class _Reader:
    def __init__(self, began_ns: int) -> None:
        self._began_ns = began_ns
        self._recorder = Recorder(lambda: 0.0)
        self._calls: list[ToolCall] = []

    def transcript(self) -> Transcript:
        """Give all that has been read."""
        return replace(self._recorder.transcript(), calls=tuple(self._calls))

    def read_reply(self, span: Span) -> None:
        """Add a reply, the messages before it that are new, and the calls that it asks for."""
        reply, recorder = reply_of(span), self._recorder
        recorder.offer_tools(reply.tools)
        for message in reply.prompt:
            if message["role"] == "tool":
                self._show(message["tool_call_id"], message["content"])
        recorder.turn += 1
        recorder.add_prompt(reply.prompt)
        requests = _requests(reply.message, recorder.turn)
        self._calls += [replace(call, error=UNFINISHED) for call in requests]
        usage = reply.usage if reply.usage.known_tokens else UNKNOWN_USAGE
        times = self._seconds(span.start_ns), self._seconds(span.end_ns)
        ask = Ask(
            recorder.turn, *times, usage, reply.finish, reply.first_token_s, reply.reasoning, reply.model
        )
        recorder.add_reply(reply.message, requests, ask)

    def read_call(self, span: Span) -> None:
        """Put a call's times and what came of it where it was asked for; add one that nobody asked for."""
        span_call = call_of(span)
        place = self._place(span_call)
        times = {"started": self._seconds(span.start_ns), "ended": self._seconds(span.end_ns)}
        failed = None if span.error is None else ToolError("tool_error", span.error)
        if place is None:
            turn = sum(ask.ended <= times["started"] for ask in self._recorder.transcript().asks)
            id = span_call.id or f"own_{len(self._calls) + 1}"
            own = ToolCall(id, turn, 0, span_call.tool, span_call.args, span_call.raw_args)
            self._calls.append(
                replace(own, result=None if failed else span_call.result, error=failed, **times)
            )
            return
        call = self._calls[place]
        if failed is not None or not is_ended(call):
            call = replace(call, result=None if failed else span_call.result, error=failed)
        self._calls[place] = replace(call, **times)

    def _show(self, id: str, content: str) -> None:
        """Put what a model was shown into its call."""
        for place, call in enumerate(self._calls):
            if call.id == id and call.error is UNFINISHED:
                self._calls[place] = replace(call, result=shown_value(content), error=None)
                return

    def _place(self, span_call: SpanCall) -> int | None:
        """Give the call that a tool's span tells of: by id, else by tool and arguments, else by tool."""
        untimed = [
            (at, call)
            for at, call in enumerate(self._calls)
            if not call.ended and call.tool == span_call.tool
        ]
        if span_call.id:
            return next((at for at, call in untimed if call.id == span_call.id), None)
        same = [at for at, call in untimed if call.args == span_call.args]
        return next(iter([*same, *(at for at, _ in untimed)]), None)

    def _seconds(self, at_ns: int) -> float:
        return (at_ns - self._began_ns) / 10**9


def _requests(message: OpenAIMessage, turn: int) -> tuple[ToolCall, ...]:
    calls: Sequence[OpenAIMessage] = message.get("tool_calls") or ()
    return tuple(
        ToolCall(
            call["id"], turn, index, call["function"]["name"], *parse_arguments(call["function"]["arguments"])
        )
        for index, call in enumerate(calls)
    )

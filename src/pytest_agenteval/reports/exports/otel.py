"""``agenteval report RUN --as otel``: a trial as the spans of one trace, sent to a collector or to files.

The names are those of OpenTelemetry's conventions for generative AI (``transcripts/spans.py`` has them),
which know spans ``invoke_agent``, ``chat`` and ``execute_tool``, and the event ``gen_ai.evaluation.result``.
What they have no word for is an attribute below ``agenteval``. What is not known is left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import asdict, replace

from pytest_agenteval.cassettes.transcripts import spans as names
from pytest_agenteval.cassettes.transcripts.spans import (
    CALL_ARGUMENTS,
    CALL_RESULT,
    INPUT_MESSAGES,
    OUTPUT_MESSAGES,
    TOOL_DEFINITIONS,
    SpanEvent,
    TraceSpan,
)
from pytest_agenteval.records.transcript import Ask, Message, Transcript, Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.conversation import call_requests, reply_asks
from pytest_agenteval.reports.exports.trial_identity import (
    file_name,
    moment,
    requested_model,
    run_name,
    session_name,
    trial_id,
)
from pytest_agenteval.store.run_folder import RunModel
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake, writing
from pytest_agenteval.text.json_values import compact_json
from pytest_agenteval.text.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.reports.exports.otel_sdk import Collector


PROVIDERS: Mapping[str, str] = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "cohere_chat": "cohere",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
"""What litellm calls a provider and the conventions otherwise; all others have one name with both."""

FAMILIES: Mapping[str, str] = {"gpt-": "openai", "o1": "openai", "o3": "openai", "claude": "anthropic"}
"""How ids begin that litellm takes without a provider before them."""


def provider_name(model: RunModel) -> str:
    """Give the provider in an id, by the conventions' name; ``litellm`` where the id does not show one.

    The provider of an offline model is ``agenteval``.
    """
    if model.offline:
        return "agenteval"
    prefix, slash, _ = model.id.partition("/")
    if slash:
        return PROVIDERS.get(prefix, prefix)
    return next((name for start, name in FAMILIES.items() if model.id.startswith(start)), "litellm")


def _chat_content(transcript: Transcript, reply: int, ask: Ask) -> dict[str, str]:
    # The input is the whole conversation up to the reply, but no message of an earlier one.
    reply_message = transcript.messages[reply]
    history = [message for message in transcript.messages[:reply] if message.phase == reply_message.phase]
    output = _message(reply_message)
    if ask.reasoning:
        output["parts"].insert(0, {"type": "reasoning", "content": ask.reasoning})
    return {INPUT_MESSAGES: _messages_json(map(_message, history)), OUTPUT_MESSAGES: _messages_json([output])}


def _trial_content(trial: Trial) -> dict[str, str]:
    # The input of a trial is what its agent started with: the messages before the first reply.
    messages, replies = trial.transcript.messages, reply_asks(trial.transcript)
    prompt = messages[: min(replies, default=len(messages))]
    answer = {"role": "assistant", "parts": [{"type": "text", "content": trial.outcome.answer.text}]}
    return {
        INPUT_MESSAGES: _messages_json(map(_message, prompt)),
        OUTPUT_MESSAGES: _messages_json([answer] if trial.outcome.answer.text else []),
        TOOL_DEFINITIONS: _messages_json(tool.declaration() for tool in trial.transcript.tools),
    }


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        response = {"type": "tool_call_response", "id": message.call_id, "response": message.content}
        return {"role": message.role, "parts": [response]}
    parts: list[dict[str, Any]] = [{"type": "text", "content": message.content}] if message.content else []
    for call in call_requests(message):
        arguments = dict(call.args) if call.raw_args is None else call.raw_args
        parts.append({"type": "tool_call", "id": call.id, "name": call.tool, "arguments": arguments})
    return {"role": message.role, "parts": parts}


def _messages_json(messages: Iterable[dict[str, Any]]) -> str:
    listed = list(messages)
    return compact_json(listed) if listed else ""


EPOCH = datetime.fromtimestamp(0, UTC)


def trial_spans(run: Run, trial: Trial, *, content: bool = False) -> tuple[TraceSpan, ...]:
    """Give the spans of a trial, the root first; ``content`` adds the text of messages and calls."""
    trace = _Trace(run, trial, content)
    return (trace.root(), *trace.chats(), *trace.tools())


class _Trace:
    """Makes the spans of one trial."""

    def __init__(self, run: Run, trial: Trial, content: bool) -> None:
        self._run, self._trial, self._content = run_name(run), trial, content
        self._model = requested_model(run, trial)
        self._package = run.header.package
        self._trace_id = trial_id(self._run, trial)
        self._started = moment(trial.started_at, 0) or moment(run.header.started_at, 0) or EPOCH
        # Calls of a task's history were not made in this trial, and those of a provider it made by itself.
        self._tool_calls = [call for call in trial.transcript.calls if call.by == "agent"]
        asks = [max(ask.started, ask.ended) for ask in trial.transcript.asks]
        # A call that was broken off has no end, and a limit may be noticed after the trial's own seconds: the
        # root's end is the last of all times, so that every span lies within it.
        calls = [max(call.started, call.ended) for call in self._tool_calls]
        self._end_s = max(0.0, trial.seconds, *asks, *calls)

    def root(self) -> TraceSpan:
        trial = self._trial
        attributes = {
            **self._about(names.AGENT),
            names.AGENT_NAME: trial.key.agent,
            names.AGENT_VERSION: trial.digests.code or self._package,
            **(_usage(trial.usage) if trial.usage.asks else {}),
            **self._about_trial(),
            **(_trial_content(trial) if self._content else {}),
        }
        error = trial.message if trial.ending == "errored" else None
        if error is not None:
            attributes[names.ERROR_TYPE] = trial.cause or "_OTHER"
        name, times = f"invoke_agent {trial.key.agent}", (0.0, self._end_s)
        return self._span(name, "agent", times, attributes, events=tuple(self._events()), error=error)

    def chats(self) -> Iterator[TraceSpan]:
        numbers = {id(ask): number for number, ask in reply_asks(self._trial.transcript).items()}
        for place, ask in enumerate(self._trial.transcript.asks):
            reply = numbers.get(id(ask))
            attributes = {
                **self._about(names.CHAT),
                **_usage(ask.usage),
                names.FINISH_REASONS: [ask.finish],
                names.IS_STREAMED: ask.first_token_s is not None or None,
                names.FIRST_CHUNK_S: ask.first_token_s,
                "agenteval.turn": ask.turn,
                "agenteval.attempts": ask.usage.attempts or None,
            }
            if reply is not None:
                attributes["agenteval.phase"] = self._trial.transcript.messages[reply].phase
                if self._content:
                    attributes |= _chat_content(self._trial.transcript, reply, ask)
            name = f"chat {self._model.id}"
            times = (ask.started, ask.ended)
            kind: Literal["client", "internal"] = "internal" if self._model.offline else "client"
            yield self._span(name, f"chat/{place}", times, attributes, kind=kind)

    def tools(self) -> Iterator[TraceSpan]:
        for place, call in enumerate(self._tool_calls):
            result = call.result if isinstance(call.result, str) else compact_json(call.result)
            content = {
                CALL_ARGUMENTS: call.raw_args or compact_json(call.args),
                CALL_RESULT: result if call.error is None else None,
            }
            attributes = {
                names.OPERATION: names.TOOL,
                names.TOOL_NAME: call.tool,
                names.CALL_ID: call.id,
                names.TOOL_TYPE: "function",
                names.ERROR_TYPE: call.error.type if call.error else None,
                "agenteval.turn": call.turn,
                "agenteval.tape": call.tape if call.tape != "none" else None,
                **(content if self._content else {}),
            }
            times = (call.started, call.ended)
            error = call.error.message if call.error else None
            yield self._span(f"execute_tool {call.tool}", f"tool/{place}", times, attributes, error=error)

    def _span(
        self,
        name: str,
        place: str,
        times: tuple[float, float],
        attributes: Mapping[str, Any],
        *,
        kind: Literal["client", "internal"] = "internal",
        events: tuple[SpanEvent, ...] = (),
        error: str | None = None,
    ) -> TraceSpan:
        parent = "" if place == "agent" else self._span_id("agent")
        # Never before the trial's start, and never an end before its start.
        start, end = self._ns(max(0.0, times[0])), self._ns(max(0.0, *times))
        ids, values = (self._trace_id, self._span_id(place), parent), _without_blanks(attributes)
        return TraceSpan(*ids, name, kind, start, end, values, events, error)

    def _span_id(self, place: str) -> str:
        # Not random, so that a second export of a run gives the same spans.
        return hashlib.sha256(f"{self._trace_id}/{place}".encode()).hexdigest()[:16]

    def _ns(self, offset_s: float) -> int:
        # In whole microseconds: a float of seconds since 1970 has no more.
        passed = self._started - EPOCH + timedelta(seconds=offset_s)
        return (passed // timedelta(microseconds=1)) * 1000

    def _about(self, operation: str) -> dict[str, Any]:
        return {
            names.OPERATION: operation,
            names.PROVIDER: provider_name(self._model),
            names.REQUEST_MODEL: self._model.id,
            names.CONVERSATION: session_name(self._run, self._trial.key),
        }

    def _about_trial(self) -> dict[str, Any]:
        trial = self._trial
        facts = {"run": self._run, **trial.key._asdict()}
        names = ("attempt", "ending", "score", "bucket", "kind", "tags", "file", "limit", "seconds")
        facts |= {name: getattr(trial, name) for name in names} | {"tags": list(trial.tags)}
        return {f"agenteval.{name}": value for name, value in facts.items() if name != "agent"}

    def _events(self) -> Iterator[SpanEvent]:
        trial, end_ns = self._trial, self._ns(self._end_s)
        for event in trial.transcript.events:
            # Judges are called after the agent's end: their events stand at that end, as grades do.
            at_ns = self._ns(min(max(event.at, 0.0), self._end_s))
            yield SpanEvent(f"agenteval.{event.kind}", at_ns, {"agenteval.text": event.text})
        if trial.ending == "errored":
            about = {
                "exception.type": trial.cause or "_OTHER",
                "exception.message": trial.message,
                "exception.stacktrace": trial.traceback,
            }
            yield SpanEvent("exception", end_ns, _without_blanks(about))
        for grade in trial.grades:
            found = {
                "gen_ai.evaluation.name": grade.grader,
                "gen_ai.evaluation.score.value": grade.score,
                "gen_ai.evaluation.score.label": {True: "pass", False: "fail", None: "undecided"}[
                    grade.passed
                ],
                "gen_ai.evaluation.explanation": grade.rationale,
                names.ERROR_TYPE: grade.undecided if grade.crashed else None,
                "agenteval.threshold": grade.threshold,
                "agenteval.weight": grade.weight,
                "agenteval.undecided": grade.undecided,
            }
            yield SpanEvent("gen_ai.evaluation.result", end_ns, _without_blanks(found))


def _without_blanks(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None and value not in ("", [])}


def _usage(usage: Usage) -> dict[str, Any]:
    """Give tokens and price; cached tokens are part of the input's, reasoning's are part of the output's."""
    return {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHED_TOKENS: usage.cached_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
        names.COST_USD: usage.cost_usd,
    }


CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable that makes OpenTelemetry's own instrumentations record the content of messages."""

CONTENT_WORDS = ("true", "1", "span_only", "span_and_event")
BATCH = 512
"""Spans in a request, whole traces at least: as many as the SDK's batches have."""


def export_traces(runs: Sequence[Run], folder: Path | None) -> Iterator[Path | str]:
    """Send each trial of runs as a trace, or write a file for each run; gives a line or a path for each run.

    A trial whose transcript cannot be read is left out, and ``Run.odd`` says so. Raises UsageMistake where
    OpenTelemetry is not installed, where a collector takes nothing and where a file cannot be written.
    """
    # Whoever does not export traces never imports OpenTelemetry.
    try:
        from pytest_agenteval.reports.exports import otel_sdk  # noqa: F401
    except ImportError as missing:
        raise UsageMistake(
            f"--as otel needs OpenTelemetry ({missing}): pip install 'pytest-agenteval[otel]'"
        ) from None
    return _send_runs(runs) if folder is None else _write_runs(runs, folder)


def _traces(run: Run) -> Iterator[tuple[TraceSpan, ...]]:
    """Give the spans of each trial, one after the other, without secrets and half surrogate pairs."""
    # By the conventions content is recorded only on request, as it may be private and large.
    content = os.environ.get(CONTENT, "").strip().lower() in CONTENT_WORDS
    for entry in run.entries:
        trial = run.trial_if_readable(entry)
        if trial is not None:
            yield tuple(map(_clean_span, trial_spans(run, trial, content=content)))


def _clean_span(span: TraceSpan) -> TraceSpan:
    """Give a span without secrets; half of a surrogate pair, which no protocol takes, becomes ``?``."""
    events = tuple(SpanEvent(**_encodable(asdict(event))) for event in span.events)
    fields = {name: _encodable(getattr(span, name)) for name in ("name", "attributes", "error")}
    return replace(span, events=events, **fields)


def _encodable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _encodable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    if isinstance(value, str):
        return KNOWN_SECRETS.text(value).encode("utf-8", "replace").decode("utf-8")
    return value


def _write_runs(runs: Sequence[Run], folder: Path) -> Iterator[Path]:
    from pytest_agenteval.processes.files import replacing
    from pytest_agenteval.reports.exports.otel_sdk import otlp_json, service

    for run in runs:
        path = folder / f"{file_name(run_name(run)) or 'run'}.otlp.jsonl"
        resource = service()
        with writing(path):
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(otlp_json(trace, resource) for trace in _traces(run))
        yield path


def _send_runs(runs: Sequence[Run]) -> Iterator[str]:
    from pytest_agenteval.reports.exports.otel_sdk import Collector

    collector = Collector()
    try:
        for run in runs:
            trials, spans = send_run(run, collector)
            yield f"{run_name(run)}: {trials} traces, {spans} spans sent to {collector.endpoint}"
    finally:
        collector.close()


def send_run(run: Run, collector: Collector) -> tuple[int, int]:
    """Send a run's trials, whole traces at a time; give the numbers of traces and spans."""
    trials = spans = 0
    waiting: list[TraceSpan] = []
    for trace in _traces(run):
        trials, spans = trials + 1, spans + len(trace)
        waiting += trace
        if len(waiting) >= BATCH:
            collector.send(waiting)
            waiting = []
    if waiting:
        collector.send(waiting)
    return trials, spans

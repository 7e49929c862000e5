"""A trial as the spans of one trace, by OpenTelemetry's conventions for generative AI, as plain data.

The conventions (``transcripts/spans.py`` has their names) know spans ``invoke_agent``, ``chat`` and
``execute_tool``, and the event ``gen_ai.evaluation.result``.
What they have no word for is an attribute below ``agenteval``. What is not known is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pytest_agenteval.cassettes.transcripts import spans as names
from pytest_agenteval.cassettes.transcripts.spans import Span, SpanEvent
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.exports.genai_messages import call_content, chat_content, trial_content
from pytest_agenteval.reports.exports.genai_providers import provider_name
from pytest_agenteval.reports.exports.trial_identity import (
    asked_model,
    moment,
    run_name,
    session_name,
    trial_id,
)
from pytest_agenteval.reports.trial.conversation import reply_asks
from pytest_agenteval.store.run_reader import Run

EPOCH = datetime.fromtimestamp(0, UTC)


def trial_spans(run: Run, trial: Trial, *, content: bool = False) -> tuple[Span, ...]:
    """Give the spans of a trial, the root first; with ``content`` what was said and called, too."""
    trace = _Trace(run, trial, content)
    return (trace.root(), *trace.chats(), *trace.tools())


class _Trace:
    """Makes the spans of one trial."""

    def __init__(self, run: Run, trial: Trial, content: bool) -> None:
        self._run, self._trial, self._content = run_name(run), trial, content
        self._model = asked_model(run, trial)
        self._package = run.header.package
        self._trace_id = trial_id(self._run, trial)
        self._started = moment(trial.started_at, 0) or moment(run.header.started_at, 0) or EPOCH
        self._tool_calls = [call for call in trial.transcript.calls if call.by == "agent"]
        asks = [max(ask.started, ask.ended) for ask in trial.transcript.asks]
        # A call that was broken off has no end.
        calls = [max(call.started, call.ended) for call in self._tool_calls]
        self._end_s = max(0.0, trial.seconds, *asks, *calls)

    def root(self) -> Span:
        """Give the agent's span: the whole trial, with how it ended and its grades."""
        trial = self._trial
        attributes = {
            **self._about(names.AGENT),
            names.AGENT_NAME: trial.key.agent,
            names.AGENT_VERSION: trial.digests.code or self._package,
            **(_usage(trial.usage) if trial.usage.asks else {}),
            **self._about_trial(),
            **(trial_content(trial) if self._content else {}),
        }
        errored = trial.ending == "errored"
        if errored:
            attributes[names.ERROR_TYPE] = trial.cause or "_OTHER"
        return self._span(
            f"invoke_agent {trial.key.agent}",
            "agent",
            (0.0, self._end_s),
            attributes,
            events=tuple(self._events()),
            error=trial.message if errored else None,
        )

    def chats(self) -> Iterator[Span]:
        """Give a span for each reply of the model."""
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
                    attributes |= chat_content(self._trial.transcript, reply, ask)
            name = f"chat {self._model.id}"
            times = (ask.started, ask.ended)
            kind: Literal["client", "internal"] = "internal" if self._model.offline else "client"
            yield self._span(name, f"chat/{place}", times, attributes, kind=kind)

    def tools(self) -> Iterator[Span]:
        """Give a span for each call that was made; what a task says was called before is none."""
        for place, call in enumerate(self._tool_calls):
            attributes = {
                names.OPERATION: names.TOOL,
                names.TOOL_NAME: call.tool,
                names.CALL_ID: call.id,
                names.TOOL_TYPE: "function",
                names.ERROR_TYPE: call.error.type if call.error else None,
                "agenteval.turn": call.turn,
                "agenteval.tape": call.tape if call.tape != "none" else None,
                **(call_content(call) if self._content else {}),
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
    ) -> Span:
        parent = "" if place == "agent" else self._span_id("agent")
        start, end = self._ns(max(0.0, times[0])), self._ns(max(0.0, *times))
        values = _without_blanks(attributes)
        return Span(
            self._trace_id, self._span_id(place), parent, name, kind, start, end, values, events, error
        )

    def _span_id(self, place: str) -> str:
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
        trial, key = self._trial, self._trial.key
        return {
            "agenteval.run": self._run,
            "agenteval.suite": key.suite,
            "agenteval.task": key.task,
            "agenteval.model": key.model,
            "agenteval.variant": key.variant,
            "agenteval.repetition": key.repetition,
            "agenteval.attempt": trial.attempt,
            "agenteval.ending": trial.ending,
            "agenteval.score": trial.score,
            "agenteval.bucket": trial.bucket,
            "agenteval.kind": trial.kind,
            "agenteval.tags": list(trial.tags),
            "agenteval.file": trial.file,
            "agenteval.limit": trial.limit,
            "agenteval.seconds": trial.seconds,
        }

    def _events(self) -> Iterator[SpanEvent]:
        trial, end_ns = self._trial, self._ns(self._end_s)
        for event in trial.transcript.events:
            # What judges brought about came after the agent's end: it stands there, as grades do.
            at_ns = self._ns(min(max(event.at, 0.0), self._end_s))
            yield SpanEvent(f"agenteval.{event.kind}", at_ns, {"agenteval.text": event.text})
        if trial.ending == "errored":
            yield SpanEvent("exception", end_ns, _exception(trial))
        for grade in trial.grades:
            yield SpanEvent("gen_ai.evaluation.result", end_ns, _evaluation(grade))


def _without_blanks(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None and value not in ("", [])}


def _usage(usage: Usage) -> dict[str, Any]:
    """Give tokens, with cached ones among the input's and reasoning's among the output's, and the price."""
    return {
        names.INPUT_TOKENS: usage.input_tokens,
        names.OUTPUT_TOKENS: usage.output_tokens,
        names.CACHED_TOKENS: usage.cached_tokens,
        names.REASONING_TOKENS: usage.reasoning_tokens,
        names.COST_USD: usage.cost_usd,
    }


def _exception(trial: Trial) -> dict[str, Any]:
    return _without_blanks(
        {
            "exception.type": trial.cause or "_OTHER",
            "exception.message": trial.message,
            "exception.stacktrace": trial.traceback,
        }
    )


def _evaluation(grade: Grade) -> dict[str, Any]:
    label = {True: "pass", False: "fail", None: "undecided"}[grade.passed]
    return _without_blanks(
        {
            "gen_ai.evaluation.name": grade.grader,
            "gen_ai.evaluation.score.value": grade.score,
            "gen_ai.evaluation.score.label": label,
            "gen_ai.evaluation.explanation": grade.rationale,
            names.ERROR_TYPE: grade.undecided if grade.crashed else None,
            "agenteval.threshold": grade.threshold,
            "agenteval.weight": grade.weight,
            "agenteval.undecided": grade.undecided,
        }
    )

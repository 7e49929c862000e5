"""Spans that end in this process, each with the trial in whose scope it began.

The only module that takes spans from ``opentelemetry``. It is imported only if the process uses that already,
or if a suite requires it.
"""

from __future__ import annotations

import threading
from weakref import WeakSet

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as LiveSpan

from pytest_agenteval.cassettes.http.scope import Scope, current
from pytest_agenteval.cassettes.transcripts.spans import TraceSpan, sdk_span

# The most spans that are stored of one trial.
MOST_SPANS = 20_000


class TrialSpans(SpanProcessor):
    """Stores the spans of each trial that is watched.

    A span belongs to the scope in which it begins, be it in a task, a thread or a pool. Without a scope, as
    in a thread that a framework has started, it belongs to the trial of its parent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: dict[Scope, list[TraceSpan]] = {}
        self._owners: dict[int, Scope] = {}

    def watch(self, scope: Scope) -> None:
        """Store the spans of this trial from now on."""
        with self._lock:
            self._ended[scope] = []

    def pop_spans(self, scope: Scope) -> list[TraceSpan]:
        """Return the ended spans of a trial, and store no more of them."""
        with self._lock:
            self._owners = {id: owner for id, owner in self._owners.items() if owner is not scope}
            return self._ended.pop(scope, [])

    def on_start(self, span: LiveSpan, parent_context: Context | None = None) -> None:
        scope = current()
        with self._lock:
            owner = None if scope is None else scope.of_trial
            if owner not in self._ended and span.parent is not None:
                owner = self._owners.get(span.parent.span_id)
            if owner is not None and owner in self._ended:
                self._owners[_id(span)] = owner

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            owner = self._owners.pop(_id(span), None)
            spans = None if owner is None else self._ended.get(owner)
            if spans is not None and len(spans) < MOST_SPANS:
                spans.append(sdk_span(span))


def _id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return 0 if context is None else context.span_id


PROCESSOR = TrialSpans()
_watched: WeakSet[TracerProvider] = WeakSet()


def attach(*, set_up: bool) -> bool:
    """Add the processor to the process's tracer provider; return whether there is one."""
    # With ``set_up`` a missing provider is made; its spans go nowhere else.
    provider = trace.get_tracer_provider()
    if set_up and not isinstance(provider, TracerProvider):
        trace.set_tracer_provider(TracerProvider())
        provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        return False
    if provider not in _watched:
        _watched.add(provider)
        provider.add_span_processor(PROCESSOR)
    return True

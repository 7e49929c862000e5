"""Spans handed to OpenTelemetry's own exporter, or written as it would send them.

The only module that imports ``opentelemetry``. There is no tracer: the spans are of what is over, with times
and ids of their own.
"""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pytest_agenteval import __version__
from pytest_agenteval.cassettes.transcripts.spans import TraceSpan
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import one_line
from pytest_agenteval.text.json_values import compact_json

KINDS = {"client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
SCOPE = InstrumentationScope("pytest_agenteval", __version__)


def service() -> Resource:
    """Describe the sender of spans: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, else ``agenteval``."""
    # In a merge of resources the argument's attributes win: the variables override our name.
    ours = Resource({"service.name": "agenteval", "service.version": __version__})
    return ours.merge(OTELResourceDetector().detect())


def sdk_span(span: TraceSpan, resource: Resource) -> ReadableSpan:
    """Make the SDK's form of a span, which ended in the past."""
    # Not by a tracer, which makes ids of its own.
    parent = _context(span.trace_id, span.parent_id) if span.parent_id else None
    return ReadableSpan(
        span.name,
        context=_context(span.trace_id, span.span_id),
        parent=parent,
        resource=resource,
        attributes=dict(span.attributes),
        events=[Event(event.name, dict(event.attributes), event.at_ns) for event in span.events],
        kind=KINDS[span.kind],
        status=Status() if span.error is None else Status(StatusCode.ERROR, span.error),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=SCOPE,
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), False, TraceFlags(TraceFlags.SAMPLED))


def otlp_json(spans: Iterable[TraceSpan], resource: Resource) -> str:
    """Write spans as one line of OTLP's JSON: a request as a collector takes it and writes it to files."""
    request = encode_spans([sdk_span(span, resource) for span in spans])
    data = MessageToDict(request, use_integers_for_enums=True)
    for span in _spans_of(data):
        for name in ("traceId", "spanId", "parentSpanId"):
            # Protobuf's JSON has base64 for bytes; OTLP's JSON has hex digits for ids.
            if name in span:
                span[name] = b64decode(span[name]).hex()
    return compact_json(data) + "\n"


def _spans_of(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in data.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


class Collector:
    """An OTLP collector over HTTP, as the variables OTEL_EXPORTER_OTLP_* configure it.

    Tests give another ``exporter``. ``endpoint`` is the collector's address, as messages show it.
    """

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        try:
            self._exporter = exporter or OTLPSpanExporter()
        except (ValueError, OSError) as refused:
            raise UsageMistake(f"OTEL_EXPORTER_OTLP_…: {refused}") from None
        self.endpoint: str = getattr(self._exporter, "_endpoint", "")
        self._resource = service()

    def send(self, spans: Sequence[TraceSpan]) -> None:
        """Send spans in one request; raises UsageMistake with the exporter's reason where it fails."""
        with _complaints() as complaints:
            result = self._exporter.export([sdk_span(span, self._resource) for span in spans])
        if result is not SpanExportResult.SUCCESS:
            # The first complaint: later ones are about further attempts. Of an error of the system only that
            # part, and not what three libraries have wrapped around it.
            first = complaints[0] if complaints else "no reason was given"
            error = re.search(r"\[Errno -?\d+\] [^\"')]+", first)
            reason = one_line(error[0] if error else first, 200)
            raise UsageMistake(
                f"{self.endpoint}: the collector did not accept the spans ({reason}): "
                "set OTEL_EXPORTER_OTLP_ENDPOINT to your collector, or write files with -o DIR"
            )

    def close(self) -> None:
        self._exporter.shutdown()


@contextmanager
def _complaints() -> Iterator[list[str]]:
    # Its result says only that it failed: the reason is in its log and nowhere else.
    texts: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger(trace_exporter.__name__)
    passed_on, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield texts
    finally:
        logger.removeHandler(handler)
        logger.propagate = passed_on

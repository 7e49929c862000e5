"""``agenteval report RUN --as otel``: traces sent to a collector, with ``-o DIR`` files as it takes them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from pytest_agenteval.cassettes.transcripts.spans import Span, SpanEvent
from pytest_agenteval.reports.exports.otel_spans import trial_spans
from pytest_agenteval.reports.exports.trial_identity import file_name, run_name
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.redaction.secrets import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.reports.exports.otel_sdk import Collector

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable with which OpenTelemetry's own instrumentations are asked for what was said."""

CONTENT_WORDS = ("true", "1", "span_only", "span_and_event")
BATCH = 512
"""Spans in a request, whole traces at least: as many as the SDK's batches have."""


def export_traces(runs: Sequence[Run], folder: Path | None) -> Iterator[Path | str]:
    """Send each trial of runs as a trace, or write a file for each run; say, or give the path of, each.

    A trial whose transcript cannot be read is left out, and ``Run.odd`` says so. Raises UsageMistake where
    OpenTelemetry is not installed, where a collector takes nothing and where a file cannot be written.
    """
    try:
        from pytest_agenteval.reports.exports import otel_sdk  # noqa: F401
    except ImportError as missing:
        raise UsageMistake(
            f"--as otel needs OpenTelemetry ({missing}): pip install 'pytest-agenteval[otel]'"
        ) from None
    return _send_runs(runs) if folder is None else _write_runs(runs, folder)


def _traces(run: Run) -> Iterator[tuple[Span, ...]]:
    """Give the spans of each trial, one after the other, without what is secret and what is no text."""
    content = os.environ.get(CONTENT, "").strip().lower() in CONTENT_WORDS
    for entry in run.entries:
        trial = run.trial_if_readable(entry)
        if trial is not None:
            yield tuple(map(clean_span, trial_spans(run, trial, content=content)))


def clean_span(span: Span) -> Span:
    """Give a span without secrets; half of a surrogate pair, which no protocol takes, becomes ``?``."""
    events = tuple(SpanEvent(**_clean(asdict(event))) for event in span.events)
    fields = {name: _clean(getattr(span, name)) for name in ("name", "attributes", "error")}
    return replace(span, events=events, **fields)


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _clean(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_clean(inner) for inner in value]
    if isinstance(value, str):
        return KNOWN_SECRETS.text(value).encode("utf-8", "replace").decode("utf-8")
    return value


def _write_runs(runs: Sequence[Run], folder: Path) -> Iterator[Path]:
    from pytest_agenteval.reports.exports.otel_sdk import otlp_json, service
    from pytest_agenteval.store.file_writing import replacing

    for run in runs:
        path = folder / f"{file_name(run_name(run)) or 'run'}.otlp.jsonl"
        resource = service()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(otlp_json(trace, resource) for trace in _traces(run))
        except OSError as refused:
            raise UsageMistake(f"{path}: cannot be written ({refused.strerror})") from None
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
    waiting: list[Span] = []
    for trace in _traces(run):
        trials, spans = trials + 1, spans + len(trace)
        waiting += trace
        if len(waiting) >= BATCH:
            collector.send(waiting)
            waiting = []
    if waiting:
        collector.send(waiting)
    return trials, spans

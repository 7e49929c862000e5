"""What OpenTelemetry's spans tell of a trial whose agent is instrumented, beside its requests."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pytest_agenteval.cassettes.http.scope import Scope
from pytest_agenteval.cassettes.transcripts.spans import Span
from pytest_agenteval.chat.model_prices import with_prices
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.text.errors import NotInstalled

UNREAD = "unread_spans"
"""The kind of event that tells of spans which could not be read."""


@contextmanager
def telling_spans(scope: Scope, recorder: Recorder, *, set_up: bool) -> Iterator[None]:
    """Add what spans begun inside tell to the transcript: all of it where no model was seen, else times only.

    It costs nothing where the process has no OpenTelemetry SDK in use. ``set_up`` says that a suite asks for
    it: then there is one; raises NotInstalled where it cannot be imported.
    """
    if not (set_up or "opentelemetry.sdk.trace" in sys.modules):
        yield
        return
    try:
        from pytest_agenteval.engine.otel_processor import PROCESSOR, attach
    except ImportError as missing:
        if not set_up:  # somebody's own, of another kind
            yield
            return
        raise NotInstalled(
            f"otel: true needs OpenTelemetry ({missing}): pip install 'pytest-agenteval[otel]'"
        ) from None
    if not attach(set_up=set_up):
        yield
        return
    began_ns = time.time_ns() - round(recorder.at() * 10**9)
    PROCESSOR.watch(scope)
    try:
        yield
    finally:
        _add(recorder, PROCESSOR.pop_spans(scope), began_ns)


def _add(recorder: Recorder, spans: list[Span], began_ns: int) -> None:
    if not spans:
        return
    from pytest_agenteval.cassettes.transcripts.span_reading import read_spans

    try:
        recorder.add_returned(with_prices(read_spans(spans, began_ns), recorder.prices))
    except Exception as odd:  # somebody's attributes: they are no reason to break a trial
        recorder.event(UNREAD, f"{len(spans)} spans could not be read: {type(odd).__name__}: {odd}")

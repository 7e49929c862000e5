"""What an agent does by itself: its own requests, which are replayed, recorded or refused, and its spans."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pytest_agenteval.cassettes.http.patches import intercepted_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope
from pytest_agenteval.chat.model_prices import with_prices
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.text.errors import NotInstalled
from pytest_agenteval.tools.toolbox import ToolBox

if TYPE_CHECKING:
    from pytest_agenteval.chat.model_traffic import ModelTraffic
    from pytest_agenteval.tools.tool_tape import ToolTape


_CUT = "the agent closed or gave up the response before its end; it is not recorded"


class InterceptedRequests:
    """The requests of one trial that are neither a tool's nor a chat's; its threads' are among them.

    One that is refused breaks the trial, whatever the agent makes of it. Those of models are ``traffic``'s.
    """

    def __init__(
        self, plan: Plan, box: ToolBox, recorder: Recorder, traffic: Callable[[], ModelTraffic]
    ) -> None:
        self._plan, self._box, self._recorder = plan, box, recorder
        self._make_traffic = traffic
        self._nowhere: ToolTape | None = None

    @contextmanager
    def answering(self, *, closing: bool = True) -> Iterator[Scope]:
        """Answer requests that are made inside; afterwards all are refused, if it is ``closing``."""
        # Raises CassetteMiss in place of what came of a refusal.
        # Whoever records wants to keep what is sent.
        passing = self._plan.live and self._plan.conditions.record == "none"
        traffic = lazy_traffic(self._make_traffic)
        ignored = self._plan.task.ignored_hosts
        with intercepted_requests(
            lambda: self._tape.of_agent,
            passing=passing,
            closing=closing,
            traffic=traffic,
            ignored_hosts=ignored,
        ) as scope:
            try:
                yield scope
            except (Exception, NotRecorded, BaseExceptionGroup) as raised:
                if not scope.missed:
                    raise
                raise self._tape.agents_miss(scope.missed[0]) from raised
            finally:
                traffic.close()
                self._record_events(scope)

    def _record_events(self, scope: Scope) -> None:
        for request in tuple(scope.missed):
            miss = self._tape.agents_miss(request)
            self._recorder.add_miss(miss)
            self._recorder.broken = self._recorder.broken or miss
        for (kind, text), times in scope.noted.items():
            self._recorder.event(kind, text, {"times": times})
        for request in tuple(scope.cuts):
            self._recorder.event("cut_response", f"{request.method} {request.uri}: {_CUT}")

    @property
    def _tape(self) -> ToolTape:
        if tape := self._box.open_tape():
            return tape
        if self._nowhere is None:  # the plan was made by hand, and has no cassette: an empty tape
            from pytest_agenteval.cassettes.cassette import Cassette
            from pytest_agenteval.cassettes.tape import Tape
            from pytest_agenteval.tools.tool_tape import ToolTape

            nothing = Cassette(Path(f"{self._plan.task.id}.yaml"), name=f"{self._plan.task.id}: no cassette")
            self._nowhere = ToolTape(Tape(nothing, allow_repeats=True), retry_command="")
        return self._nowhere


class _LazyTraffic:
    def __init__(self, make: Callable[[], ModelTraffic]) -> None:
        self._make, self._making = make, threading.Lock()
        self._traffic: ModelTraffic | None = None

    def __getattr__(self, name: str) -> Any:
        with self._making:  # an agent's threads may make the first request at once
            self._traffic = self._traffic or self._make()
        return getattr(self._traffic, name)

    def close(self) -> None:
        if self._traffic is not None:
            self._traffic.close()


def lazy_traffic(make: Callable[[], ModelTraffic]) -> ModelTraffic:
    """Return a trial's model traffic, made at its first request: most agents make none of their own."""
    return cast("ModelTraffic", _LazyTraffic(make))


@contextmanager
def recording_spans(scope: Scope, recorder: Recorder, *, set_up: bool) -> Iterator[None]:
    """Add what spans that begin inside say to the transcript: where models were seen, only their times."""
    # It costs nothing where the process has no OpenTelemetry SDK in use. ``set_up`` says that a suite asks
    # for it: then there is one; raises NotInstalled where it cannot be imported.
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
        if spans := PROCESSOR.pop_spans(scope):
            from pytest_agenteval.cassettes.transcripts.span_reading import read_spans

            try:
                recorder.add_returned(with_prices(read_spans(spans, began_ns), recorder.prices))
            except Exception as raised:  # somebody's attributes: they are no reason to break a trial
                text = f"{len(spans)} spans could not be read: {type(raised).__name__}: {raised}"
                recorder.event("unread_spans", text)

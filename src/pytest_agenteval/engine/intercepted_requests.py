"""What an agent does by itself: its own requests, which are replayed, recorded or refused, and its spans."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cassettes.http.patches import own_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope
from pytest_agenteval.cassettes.transcripts.spans import Span
from pytest_agenteval.chat.model_prices import with_prices
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.text.errors import NotInstalled
from pytest_agenteval.tools.toolbox import ToolBox

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.interaction import Request, Response
    from pytest_agenteval.cassettes.tape import Tape
    from pytest_agenteval.chat.model_traffic import ModelTraffic
    from pytest_agenteval.tools.tool_tape import ToolTape


_CUT_RESPONSE = "cut_response"
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
        """Answer what is asked inside; once it is over nothing more goes out, if it is ``closing``.

        Raises CassetteMiss in place of what came of a refusal.
        """
        # Who records wants to keep what goes out.
        passing = self._plan.live and self._plan.conditions.record == "none"
        traffic = LazyTraffic(self._make_traffic)
        ignored = self._plan.task.ignored_hosts
        with own_requests(
            self._tapes, passing=passing, closing=closing, traffic=traffic, ignored_hosts=ignored
        ) as scope:
            try:
                yield scope
            except (Exception, NotRecorded, BaseExceptionGroup) as raised:
                if not scope.missed:
                    raise
                raise self._tape.agents_miss(scope.missed[0]) from raised
            finally:
                traffic.close()
                self._tell(scope)

    def _tell(self, scope: Scope) -> None:
        for request in tuple(scope.missed):
            miss = self._tape.agents_miss(request)
            self._recorder.add_miss(miss)
            self._recorder.broken = self._recorder.broken or miss
        for (kind, text), times in scope.noted.items():
            self._recorder.event(kind, text, {"times": times})
        for request in tuple(scope.cuts):
            self._recorder.event(_CUT_RESPONSE, f"{request.method} {request.uri}: {_CUT}")

    def _tapes(self) -> Sequence[Tape]:
        return self._tape.of_agent

    @property
    def _tape(self) -> ToolTape:
        return self._box.open_tape() or self._without_cassette()

    def _without_cassette(self) -> ToolTape:
        """Give a tape of nothing, for a plan that was made by hand and has no cassette."""
        if self._nowhere is None:
            from pytest_agenteval.cassettes.cassette import Cassette
            from pytest_agenteval.cassettes.tape import Tape
            from pytest_agenteval.tools.tool_tape import ToolTape

            nothing = Cassette(Path(f"{self._plan.task.id}.yaml"), name=f"{self._plan.task.id}: no cassette")
            self._nowhere = ToolTape(Tape(nothing, allow_repeats=True), retry_command="")
        return self._nowhere


class LazyTraffic:
    """A trial's model traffic, made at its first request: most agents make none of their own."""

    def __init__(self, make: Callable[[], ModelTraffic]) -> None:
        self._make = make
        self._making = threading.Lock()
        self._traffic: ModelTraffic | None = None

    @property
    def sends(self) -> bool:
        """Whether a request that is not played may be sent."""
        return self._instance.sends

    def claims(self, request: Request) -> bool:
        """Whether a request asks a model, or something else of a model's server."""
        return self._instance.claims(request)

    def play(self, request: Request) -> Response | None:
        """Give the recorded response; None if the request is to be sent."""
        return self._instance.play(request)

    def begin_response(self, request: Request, status: int) -> None:
        """Take note of a response's status."""
        self._instance.begin_response(request, status)

    def record(self, request: Request, response: Response, first_byte_s: float | None = None) -> None:
        """Read what was really answered, and keep it."""
        self._instance.record(request, response, first_byte_s)

    def cut(self, request: Request, response: Response) -> None:
        """Read what came of a response that ended before its time."""
        self._instance.cut(request, response)

    def note_reply(self, request: Request, response: Response) -> None:
        """Look at a response to a request that it does not claim."""
        self._instance.note_reply(request, response)

    def fail(self, request: Request, cut: Response, failure: Response) -> None:
        """Read what came of a response that never came whole, and keep what the client raised."""
        self._instance.fail(request, cut, failure)

    def close(self) -> None:
        """End what is open, if there ever was any."""
        if self._traffic is not None:
            self._traffic.close()

    @property
    def _instance(self) -> ModelTraffic:
        with self._making:
            if self._traffic is None:
                self._traffic = self._make()
            return self._traffic


UNREAD = "unread_spans"
"""The kind of event that tells of spans which could not be read."""


@contextmanager
def recording_spans(scope: Scope, recorder: Recorder, *, set_up: bool) -> Iterator[None]:
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
        _add_spans(recorder, PROCESSOR.pop_spans(scope), began_ns)


def _add_spans(recorder: Recorder, spans: list[Span], began_ns: int) -> None:
    if not spans:
        return
    from pytest_agenteval.cassettes.transcripts.span_reading import read_spans

    try:
        recorder.add_returned(with_prices(read_spans(spans, began_ns), recorder.prices))
    except Exception as odd:  # somebody's attributes: they are no reason to break a trial
        recorder.event(UNREAD, f"{len(spans)} spans could not be read: {type(odd).__name__}: {odd}")

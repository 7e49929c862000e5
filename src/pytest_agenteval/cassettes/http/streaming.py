"""Responses that come in parts: handed on as they come, kept once they are whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from pytest_agenteval.cassettes.http.events import is_event_stream
from pytest_agenteval.cassettes.http.failures import Build, failed_response, is_failure, recorded_failure
from pytest_agenteval.cassettes.http.messages import Pairs, recordable_response, sent_response
from pytest_agenteval.cassettes.http.scope import BROKE_OFF, GIVEN_UP, NothingSent, Scope, Sending, answering
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.text.errors import RequestRefused, exception_text


def replayed(scope: Scope, request: Request, build: Build) -> Response | None:
    """Give the recorded response as its server sent it, or None to send the request.

    Raises what ends a request that nothing answers, and where none came when it was recorded, what ``build``
    makes of that.
    """
    response = scope.play(request)
    if response is not None and is_failure(response):
        raise recorded_failure(response, build)
    return None if response is None else sent_response(response, request)


_LAST_EVENTS = (b"data: [DONE]", b"data:[DONE]")
"""What ends a stream in OpenAI's form: nothing follows it but the end of the response."""


class Exchange:
    """A request that is really sent, and its response as it comes: recorded at its end, and only whole.

    ``raw`` parts are as they travelled, encoded if the response's headers say so.
    """

    def __init__(self, scope: Scope, request: Request, method: str) -> None:
        self._scope, self._request, self._method = scope, request, method
        self._began = time.monotonic()
        self._first_byte_s: float | None = None
        self._parts: list[bytes] = []
        self._status, self._reason = 0, ""
        self._headers: list[tuple[str, str]] = []
        self._has_begun = False
        self._is_recorded = False
        self.over = False
        self.timed_out: Callable[[], bool] = lambda: False
        """Whether it was the client that gave up, its own time being over."""

    def sending(self) -> Sending:
        """Let the sockets through for as long as something is sent or read."""
        return self._scope.sending()

    def reading(self) -> Reading:
        """Let the sockets through while a part is read; a response that breaks off is cut."""
        return Reading(self, self._scope)

    def begin(self, status: int, reason: str, headers: Pairs) -> None:
        """Take what comes before the body."""
        self._status, self._reason, self._headers = status, reason, list(headers)
        self._scope.begin_response(self._request, status)

    @property
    def worth_reading_on(self) -> bool:
        """Whether the rest is read where somebody closes it unread, who wanted its status; no stream is."""
        return not self._has_begun and not is_event_stream(self._headers)

    def take(self, part: bytes) -> None:
        """Take the next part of the body; raises what ends a thread, or a task, whose trial has ended."""
        answering()
        if not self._has_begun:
            self.note_part(part)
        self._parts.append(part)
        if part.rstrip().endswith(_LAST_EVENTS) and is_event_stream(self._headers):
            self._record(self._response())  # some clients neither read on nor close it before they ask again

    def note_part(self, part: bytes) -> None:
        """Note that some of the body has come, which is taken later."""
        self._has_begun = self._has_begun or bool(part)
        self._note_first_byte()

    def end(self, body: bytes | None = None) -> Response:
        """Record the response, which is whole, and give it: of the parts that were taken, or of this body."""
        self._parts = self._parts if body is None else [body]
        response = self._response()
        if not self.over:
            self.over = True
            self._note_first_byte()
            self._record(response)
        return response

    def _record(self, response: Response) -> None:
        if not (self._is_recorded or self._scope.closed):
            self._is_recorded = True
            self._scope.record(self._request, response, self._first_byte_s)

    def cut(self, why: str = "", body: bytes | None = None) -> None:
        """Say that the response ended before its time, or never began: what came of it is no recording.

        ``why`` is ``BROKE_OFF``, or the reason of one that never began, or that nobody could read so far.
        ``body`` is what had come, in place of the parts that were taken.
        """
        if not self.over:
            self.over = True
            self._parts = self._parts if body is None else [body]
            if why and (why == BROKE_OFF or not is_event_stream(self._headers)):
                self._reason = why
            if not (self._is_recorded or self._scope.closed):
                self._scope.cut(self._request, self._response(whole=False))

    def fail(self, raised: BaseException, body: bytes | None = None) -> None:
        """Record that the client raised this in place of a whole response; what we raise is no failure.

        ``body`` is what had come, in place of the parts that were taken.
        """
        if not isinstance(raised, Exception) or isinstance(raised, RequestRefused | NothingSent):
            self.cut(self._reason_of(raised), body)
        elif not self.over:
            self.over = True
            self._parts = self._parts if body is None else [body]
            if not (self._is_recorded or self._scope.closed):
                self._reason = self._reason_of(raised)
                self._scope.fail(self._request, self._response(whole=False), failed_response(raised))

    def _reason_of(self, raised: BaseException) -> str:
        """Say why no response began, or that one broke off which has begun."""
        return BROKE_OFF if self._status else f"{type(raised).__name__}: {exception_text(raised)}"

    def _note_first_byte(self) -> None:
        if self._first_byte_s is None:
            self._first_byte_s = time.monotonic() - self._began

    def _response(self, *, whole: bool = True) -> Response:
        raw = b"".join(self._parts)
        return recordable_response(self._method, self._status, self._reason, self._headers, raw, whole=whole)


class Reading(Sending):
    """Sending for as long as a part of a response is read."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange, scope: Scope) -> None:
        super().__init__(scope)
        self._exchange = exchange

    def __exit__(self, *raised: object) -> None:
        super().__exit__()
        if raised[0] is asyncio.CancelledError:
            if self._exchange.timed_out():
                self._exchange.fail(TimeoutError())
            else:
                self._exchange.cut(GIVEN_UP)
        elif isinstance(raised[1], BaseException):
            self._exchange.fail(raised[1])

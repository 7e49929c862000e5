"""One request that is really sent: its response is handed on as it comes and recorded once it is whole.

Where no response came, what the client raised is recorded, and raised again in a replay."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from pytest_agenteval.cassettes.http.messages import (
    Pairs,
    is_event_stream,
    recordable_response,
    sent_response,
)
from pytest_agenteval.cassettes.http.scope import BROKE_OFF, GIVEN_UP, NothingSent, Scope, Sending, answering
from pytest_agenteval.cassettes.interaction import Request, Response
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.text.errors import RequestRefused, exception_text

FAILURE, CAUSE = "failure", "cause"
"""Keys of a recording without a response: what the client raised, and what the system had raised."""

BuildException: TypeAlias = Callable[[str, str, Exception], Exception]
"""Makes a client's exception of its class (``httpx.ConnectError``), its text and the system's exception."""

_SYSTEM = ("builtins", "socket", "ssl", "http.client")
_ERRNO = re.compile(r"\[Errno (-?\d+)\] (.*)", re.S)


def failed_response(raised: BaseException) -> Response:
    """Make a recording of what a client raised in place of a response.

    The innermost exception of the standard library, if there is one, is recorded beside it: another client
    makes an exception of its own from that.
    """
    cause: BaseException | None = None
    each: BaseException | None = raised
    # Bounded, as causes may lead in a circle.
    for _ in range(10):
        if each is None:
            break
        cause = each if type(each).__module__ in _SYSTEM else cause
        # urllib and aiohttp hold the system's exception in a field.
        inner = getattr(each, "os_error", None) or getattr(each, "reason", None)
        each = inner if isinstance(inner, BaseException) else each.__cause__ or each.__context__
    extra = {FAILURE: _described(raised)}
    if cause is not None and cause is not raised:
        extra[CAUSE] = _described(cause)
    # HTTP does not define 599. Other programs that replay the cassette take it for a server's failure.
    return Response(599, "no response", extra=extra)


def is_failure(response: Response) -> bool:
    return FAILURE in response.extra


def failure_text(response: Response) -> str:
    """Give the recorded exception: its class with its module, and its text."""
    return str(response.extra[FAILURE])


def is_system_exception(name: str) -> bool:
    """Whether an exception class of this name is one of the standard library's."""
    return _system_class(name) is not None


def exception_class(module: Any, name: str, base: type[Exception]) -> Any:
    """Give the exception class of a client's module by its recorded name, if there is one below ``base``."""
    kind = getattr(module, name.rpartition(".")[2], None)
    return kind if isinstance(kind, type) and issubclass(kind, base) else None


def _described(raised: BaseException) -> str:
    kind = type(raised)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}: {exception_text(raised)}"


def _system_error(described: str) -> Exception:
    name, _, text = described.partition(": ")
    kind = _system_class(name)
    if kind is None:
        return TimeoutError(text) if "timeout" in name.lower() else ConnectionError(text)
    numbered = _ERRNO.fullmatch(text)
    try:
        return kind(int(numbered[1]), numbered[2]) if numbered else kind(text)
    # UnicodeDecodeError and the like want more than a text.
    except TypeError:
        return ConnectionError(text)


def _system_class(name: str) -> type[Exception] | None:
    module, _, kind = name.rpartition(".")
    module = module or "builtins"
    exception_class = getattr(import_module(module), kind, None) if module in _SYSTEM else None
    # Imported here: http.client is patched while it is being imported, and its patch imports this module.
    from http.client import HTTPException

    if isinstance(exception_class, type) and issubclass(exception_class, OSError | HTTPException):
        return exception_class
    return None


def replay(scope: Scope, request: Request, build: BuildException) -> Response | None:
    """Give the recorded response as its server sent it, or None to send the request.

    Raises what ends a request that nothing answers, and where none came when it was recorded, what ``build``
    makes of that.
    """
    response = scope.play(request)
    if response is None:
        return None
    if not is_failure(response):
        return sent_response(response, request)
    name, _, text = failure_text(response).partition(": ")
    cause = _system_error(str(response.extra.get(CAUSE, failure_text(response))))
    if "timeout" in name.lower() and not isinstance(cause, TimeoutError):
        cause = TimeoutError(text)
    try:
        failed = build(name, text, cause)
        str(failed)
    # A class that was written by hand may take other arguments, or fail when its text is needed.
    except (TypeError, AttributeError, ValueError):
        plain = TimeoutError(text) if isinstance(cause, TimeoutError) else ConnectionError(text)
        failed = build("", text, plain)
    raise failed


async def replay_waiting(scope: Scope, request: Request, build: BuildException) -> Response | None:
    """As ``replay``, for a client on an event loop: another model's reply is waited for in a thread."""
    if not scope.bridges(request):
        return replay(scope, request, build)
    try:
        return await in_daemon_thread(replay, scope, request, build)
    except asyncio.CancelledError:
        scope.cut(request, Response(0, GIVEN_UP))
        raise


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
        self._has_body = False
        self._is_recorded = False
        self.over = False
        self.timed_out: Callable[[], bool] = lambda: False
        """Whether it was the client that gave up, its own time being over."""

    def sending(self) -> Sending:
        """Let the sockets through for as long as something is sent or read."""
        return Sending(self._scope)

    def reading(self) -> PartReading:
        """Let the sockets through while a part is read; a response that breaks off is cut."""
        return PartReading(self, self._scope)

    def begin(self, status: int, reason: str, headers: Pairs) -> None:
        """Take what comes before the body."""
        self._status, self._reason, self._headers = status, reason, list(headers)
        self._scope.begin_response(self._request, status)

    @property
    def worth_reading_on(self) -> bool:
        """Whether the rest is read where somebody closes it unread, who wanted its status; no stream is."""
        return not self._has_body and not is_event_stream(self._headers)

    def take(self, part: bytes) -> None:
        """Take the next part of the body; raises what ends a thread, or a task, whose trial has ended."""
        answering()
        if not self._has_body:
            self.note_part(part)
        self._parts.append(part)
        # The last event of a stream in OpenAI's form: only the end of the response follows it. Some clients
        # neither read on nor close the stream before their next request, and the reply has to be recorded by
        # then.
        if part.rstrip().endswith((b"data: [DONE]", b"data:[DONE]")) and is_event_stream(self._headers):
            self._record(self._response())

    def note_part(self, part: bytes) -> None:
        """Note that some of the body has arrived, which is taken later."""
        self._has_body = self._has_body or bool(part)
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
        """Say why no response began, or that one broke off halfway."""
        return BROKE_OFF if self._status else f"{type(raised).__name__}: {exception_text(raised)}"

    def _note_first_byte(self) -> None:
        if self._first_byte_s is None:
            self._first_byte_s = time.monotonic() - self._began

    def _response(self, *, whole: bool = True) -> Response:
        raw = b"".join(self._parts)
        return recordable_response(self._method, self._status, self._reason, self._headers, raw, whole=whole)


class PartReading(Sending):
    """Sending for as long as a part of a response is read."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: Exchange, scope: Scope) -> None:
        super().__init__(scope)
        self._exchange = exchange

    def __exit__(self, *raised: object) -> None:
        super().__exit__()
        # A client's own timeout may arrive as a cancellation. Any other one is no failure of the provider's:
        # an agent may make two requests, and cancel the slower one.
        if raised[0] is asyncio.CancelledError:
            if self._exchange.timed_out():
                self._exchange.fail(TimeoutError())
            else:
                self._exchange.cut(GIVEN_UP)
        elif isinstance(raised[1], BaseException):
            self._exchange.fail(raised[1])

"""Whose tape a request belongs to: that of the context in which it is made."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import copy
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet

from pytest_agenteval.records.transcript import UNKNOWN_TRIAL, UNTAPED_CONNECTION, TapeStatus
from pytest_agenteval.text.errors import RequestRefused

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.interaction import Request, Response
    from pytest_agenteval.cassettes.request_matching import CallMatcher, RequestKey
    from pytest_agenteval.cassettes.tape import Tape


_lasting_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


class _Copies(NamedTuple):
    """Copies that belong to one loop, by what they are copies of; ``closing`` closes them as it ends."""

    by_original: WeakKeyDictionary[Any, Any]
    closing: AsyncGenerator[None]


_loop_copies: WeakKeyDictionary[asyncio.AbstractEventLoop, _Copies] = WeakKeyDictionary()


def share_pools(loop: asyncio.AbstractEventLoop) -> None:
    """Let clients use their own pools on this loop: it outlasts every trial."""
    _lasting_loops.add(loop)


def is_shared(loop: asyncio.AbstractEventLoop | None) -> bool:
    """Whether a loop serves all trials."""
    return loop is not None and loop in _lasting_loops


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def trial_loop() -> asyncio.AbstractEventLoop | None:
    """Give the running loop if it may end before its clients do; None on one that lasts, or on none."""
    loop = running_loop()
    return None if is_shared(loop) else loop


async def copy_of_loop(
    loop: asyncio.AbstractEventLoop,
    original: Any,
    make: Callable[[Any], Any],
    close: Callable[[Any], Awaitable[None]],
) -> Any:
    """Give this loop's copy of what works on one loop only, made at first use; it is closed as that ends."""
    held = _loop_copies.get(loop)
    if held is None:
        by_original: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        held = _loop_copies[loop] = _Copies(by_original, _until_loop_ends(loop, by_original))
        await anext(held.closing)
    copied = held.by_original.get(original)
    if copied is None:
        copied = held.by_original[original] = make(original), close
    return copied[0]


async def close_copies() -> None:
    """Close the running loop's copies; a loop that is shut down properly does that by itself."""
    held = _loop_copies.get(asyncio.get_running_loop())
    if held is not None:
        await held.closing.aclose()


def drop_copy(original: Any) -> Any | None:
    """Forget the running loop's copy of a pool, and give it to be closed; None where there is none."""
    loop = trial_loop()
    held = None if loop is None else _loop_copies.get(loop)
    copied = None if held is None else held.by_original.pop(original, None)
    return None if copied is None else copied[0]


async def _until_loop_ends(
    loop: asyncio.AbstractEventLoop, copies: WeakKeyDictionary[Any, Any]
) -> AsyncGenerator[None]:
    """Close the copies at the end: a loop that is shut down closes its generators."""
    try:
        yield
    finally:
        _loop_copies.pop(loop, None)
        for copied, close in tuple(copies.values()):
            # A copy that cannot be closed must not keep the others open.
            with suppress(Exception):
                await close(copied)


_ENDED = "the trial has ended: nothing more is sent"
_OF_NOBODY = (
    "not sent: an empty context (contextvars.Context()) on a loop that all trials share does not say which "
    "trial it belongs to. Let the task keep its context, or give each trial a loop of its own "
    "(`loop: own` in the suite)"
)

GIVEN_UP = "cancelled by the client"
"""Why no response came: the client no longer waited for it, as for the slower of two replies."""

BROKE_OFF = "broke off"
"""Why a response is not whole that had started to arrive, and that its client did not close."""


class NotRecorded(RequestRefused):
    """Says which request no tape answers, and which cassette lacks it."""

    def __init__(self, request: Request, cassette: str) -> None:
        from pytest_agenteval.cassettes.tape import describe_request

        super().__init__(
            f"{describe_request(request)} is not recorded in {cassette}, and nothing may be sent"
        )
        self.request = request


class ModelTrafficHandler(Protocol):
    """What reads, counts, plays and records the requests of an agent that ask models."""

    @property
    def sends(self) -> bool:
        """Whether a request that is not played may be sent."""

    def claims(self, request: Request) -> bool:
        """Whether a request asks a model, or something else of a model's server."""

    def with_prompts(self, request: Request) -> Request:
        """Give an ask with the prompts of the trial's variant; the same object where they change nothing."""

    def play(self, request: Request) -> Response | None:
        """Give the recorded response, or None if the request is to be sent; raises what ends the agent."""

    def bridges(self, request: Request) -> bool:
        """Whether another model answers a request that has no recording."""

    def bridge(self, request: Request) -> Response | None:
        """Have another model answer what ``play`` gave no recording for; None where it is to be sent."""

    def begin_response(self, request: Request, status: int) -> None:
        """Take note of a response's status, before any of its body is read."""

    def record(self, request: Request, response: Response, first_byte_s: float | None = None) -> None:
        """Read and record a response; the request is the one that ``play`` was given."""

    def cut(self, request: Request, response: Response) -> None:
        """Note a response that ended early, with what arrived of its body; status 0 means that none began."""

    def note_reply(self, request: Request, response: Response) -> None:
        """Look at a response to a request that it does not claim."""

    def fail(self, request: Request, cut: Response, failure: Response) -> None:
        """Note a response that never came, or broke off, and record what the client raised."""


class NothingSent(ConnectionError):
    """Raised where work comes from a queue or a pool: such a thread would die of what is no Exception."""


class ScopeClosed(SystemExit):
    """Ends a thread that goes on with requests after its trial has ended.

    It ends without a message, as nobody waits for it.
    """


class OfNobody(RequestRefused):
    """A request whose trial is unknown; the message says how to make it known."""


class Scope:
    """The requests of one trial, or of one call of a tool; several tasks and threads may make them.

    ``tapes`` opens the tapes at the first request. ``missed`` holds, redacted,
    what was refused: a request that is tried again is one; ``cuts`` what was answered in part and so is not
    recorded; ``noted`` other events of the trial. What belongs to a scope that is ``passing`` goes
    out as it is, but for what ``traffic`` claims: requests of models, which are its own whatever the tapes
    say. Requests to ``ignored_hosts`` are answered 204. With ``loopback``, requests to this machine are sent
    where the trial's own tape is neither replayed nor recorded. A scope opened inside another closes with it;
    once closed, it refuses for ever.
    """

    def __init__(
        self,
        tapes: Callable[[], Sequence[Tape]] = tuple,
        matcher: Callable[[], CallMatcher] | None = None,
        *,
        passing: bool = False,
        traffic: ModelTrafficHandler | None = None,
        ignored_hosts: Sequence[str] = (),
        loopback: bool = False,
    ) -> None:
        self._ignored_hosts, self._loopback = ignored_hosts, loopback
        self._tapes, self._matcher, self.passing, self.traffic = tapes, matcher, passing, traffic
        self._outer = current()
        self._ended = False
        self._closers: list[Callable[[], object]] = []
        self._process = os.getpid()
        self._refused: set[RequestKey] = set()
        self._refusing = threading.Lock()
        self.missed: list[Request] = []
        self.cuts: list[Request] = []
        self.played = self.recorded = 0
        self.lasting = self.accompanied = False
        self.noted: Counter[tuple[str, str]] = Counter()
        _open.add(self)

    @property
    def closed(self) -> bool:
        """Whether the trial has ended to which the requests belong."""
        return self._ended or (self._outer is not None and self._outer.closed)

    @property
    def of_trial(self) -> Scope:
        """The outermost scope that this one was opened in: a tool's belongs to its trial."""
        return self if self._outer is None else self._outer.of_trial

    def close(self) -> None:
        """Refuse every further request, also of a thread that outlives its trial."""
        self._ended = True
        _open.discard(self)
        _trials.discard(self)
        while self._closers:
            self._closers.pop()()

    def keep_open(self) -> None:
        """Answer, for as long as the process lasts, each request that no trial is known to have made.

        Called where an agent was made inside of this scope.
        """
        self.lasting = True
        _open.discard(self)

    def accompany(self) -> None:
        """Note that this trial runs, and for each other one under way that it does not run alone."""
        self.accompanied = bool(_trials)
        for other in tuple(_trials):
            other.accompanied = True
        _trials.add(self)

    def note(self, kind: str, text: str) -> None:
        """Count something that the trial is to report, as an event of this kind."""
        self.of_trial.noted[kind, text] += 1

    def note_connection(self, place: str) -> None:
        """Note a connection of which nothing is recorded, and which a replay will refuse."""
        if not self.passing and _sending.get() is None and self._own.recording:
            self.note(UNTAPED_CONNECTION, place)

    def at_close(self, close: Callable[[], object]) -> None:
        """Have this called when the scope closes; it must not take long."""
        self._closers.append(close)

    @property
    def tape_status(self) -> TapeStatus:
        """What became of the requests, in a transcript's words: the worst that happened to any."""
        if self.missed:
            return "miss"
        return "live" if self.recorded else "hit" if self.played else "none"

    @property
    def live(self) -> bool:
        """Whether a request that is not recorded is sent."""
        return self.passing or _sending.get() is self or self._own.recording

    def reaches(self, uri: str) -> bool:
        """Whether a request to this address may be sent, whatever is recorded: it is one of this machine."""
        return self._loopback and is_loopback(uri) and not len(self._own.cassette)

    def lets_by(self, request: Request) -> bool:
        """Whether a request is sent as if there were no scope: it is neither read nor recorded."""
        if is_own_address(request.uri):
            return True
        return self.passing and not (self.traffic is not None and self.traffic.claims(request))

    def with_prompts(self, request: Request) -> tuple[Request, bytes | None]:
        """Give a request with the prompts of the trial's variant, and its new body if that changes it."""
        if self.traffic is None or not self.traffic.claims(request):
            return request, None
        written = self.traffic.with_prompts(request)
        if written is request:
            return request, None
        from pytest_agenteval.cassettes.interaction import bytes_of

        return written, bytes_of(written.body)

    def bridges(self, request: Request) -> bool:
        """Whether ``play`` may wait for another model's reply."""
        return self.traffic is not None and self.traffic.bridges(request)

    def without_traffic(self) -> Scope:
        """Give a scope of the same tapes whose requests are none of a model, whatever they look like."""
        plain = copy(self)
        plain.traffic, plain._outer = None, self
        return plain

    def play(self, request: Request) -> Response | None:
        """Give the recorded response, or None if the request is to be sent; raises NotRecorded."""
        if self.traffic is not None and self.traffic.claims(request):
            response = self.traffic.play(request)
            if response is None:
                self._expect_no_copy(request)
                response = self.traffic.bridge(request)
            return response
        if self.passing:
            return None
        from pytest_agenteval.cassettes.interaction import Response

        matcher = self._call_matcher
        # The trial's own tape comes first, then the shared ones.
        for tape in self._tapes():
            interaction = tape.find((request,), matcher)
            if interaction is not None:
                self.played += 1
                if self.traffic is not None:
                    self.traffic.note_reply(request, interaction.response)
                return interaction.response
        if self._ignored_hosts:
            host = urlsplit(request.uri).hostname or ""
            if any(fnmatchcase(host, pattern.lower()) for pattern in self._ignored_hosts):
                return Response(204, "No Content")
        if self._own.recording or self.reaches(request.uri):
            self._expect_no_copy(request)
            return None
        raise self.refusal(request)

    def _expect_no_copy(self, request: Request) -> None:
        """Refuse to send in a forked copy of this process: what it counts and records is lost with it."""
        if os.getpid() != self._process:
            from pytest_agenteval.cassettes.tape import describe_request

            described = describe_request(self._own.cassette.redactor.request(request))
            raise NothingSent(
                f"{described}: not sent by a forked copy of the process, where it could be neither counted "
                "nor recorded; ask in threads, or make the agent a command"
            )

    def refusal(self, request: Request) -> BaseException:
        """Note a request that is not answered, if it is new, and give what is to be raised."""
        from pytest_agenteval.cassettes.request_matching import key_of

        redacted = self._own.cassette.redactor.request(request)
        refused = NotRecorded(redacted, self._own.cassette.name)
        # In a forked copy of this process nobody reads what is noted.
        if os.getpid() != self._process:
            return NothingSent(str(refused))
        with self._refusing:
            # Clients try again, and count their attempts in a header: a request that is repeated is one miss.
            if key_of(redacted) not in self._refused:
                self._refused.add(key_of(redacted))
                self._own.missed()
                self.missed.append(redacted)
        return for_this_thread(refused)

    def begin_response(self, request: Request, status: int) -> None:
        """Note a response's status when it arrives: a client need not read the body of a refusal."""
        if self.traffic is not None and self.traffic.claims(request):
            self.traffic.begin_response(request, status)

    def record(self, request: Request, response: Response, first_byte_s: float | None = None) -> None:
        """Record a response; ``first_byte_s`` is how many seconds after the request its body began."""
        if self.traffic is not None and self.traffic.claims(request):
            self.traffic.record(request, response, first_byte_s)
        elif not self.passing:
            if self._own.recording:
                self._own.record(request, response)
            self.recorded += 1
            if self.traffic is not None:
                self.traffic.note_reply(request, response)

    def cut(self, request: Request, response: Response) -> None:
        """Note that a response ended early, by itself or by the client, so that it is not recorded.

        Status 0 means that it never began.
        """
        if self.traffic is not None and self.traffic.claims(request):
            self.traffic.cut(request, response)
        elif not self.passing and self._own.recording:
            self.cuts.append(self._own.cassette.redactor.request(request))

    def fail(self, request: Request, cut: Response, failure: Response) -> None:
        """Record a failure: ``cut`` is as much of a response as came, ``failure`` what the client raised."""
        if self.traffic is not None and self.traffic.claims(request):
            self.traffic.fail(request, cut, failure)
        elif not self.passing and self._own.recording:
            self._own.record(request, failure)
            self.recorded += 1

    @cached_property
    def _call_matcher(self) -> CallMatcher | None:
        return None if self._matcher is None else self._matcher()

    @property
    def _own(self) -> Tape:
        return self._tapes()[0]


class _Place(NamedTuple):
    """Whose the requests of a context are, and whose work is done in it.

    ``scope`` is None where they belong to no trial. ``home`` is the scope that this thread or task was
    started in, whomever it serves. It ``may_serve`` where it is a thread that may work for several trials,
    and not the course of one, and ``serves`` while it does work that it took from a queue.
    """

    scope: Scope | None = None
    home: Scope | None = None
    may_serve: bool = True
    serves: bool = False


_NOWHERE = _Place()
_place: ContextVar[_Place | None] = ContextVar("pytest_agenteval_http", default=None)
"""None in an empty context, which does not say whose its requests are."""

_open: WeakSet[Scope] = WeakSet()
_trials: set[Scope] = set()


class _Thread(threading.local):
    """Whose work a thread does, for what runs in it in a context that does not say so."""

    scope: Scope | None = None


_thread = _Thread()

_sending: ContextVar[Scope | None] = ContextVar("pytest_agenteval_http_sending", default=None)
"""The scope one of whose requests is being sent just now."""


class Sending:
    """While this is entered, a request of the scope is being sent, or a part of its response is read."""

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        self._token = _sending.set(self._scope)

    def __exit__(self, *raised: object) -> None:
        # ``suppress`` takes three times as long, and each part of each stream comes by here.
        try:  # noqa: SIM105
            _sending.reset(self._token)
        # A stream may be closed in another context than it was read in.
        except ValueError:
            pass


CLIENT_LEFT: ContextVar[Callable[[], bool] | None] = ContextVar("pytest_agenteval_client_left", default=None)
"""Says, while a request of another program is answered, whether it has closed its connection."""


def client_has_left() -> bool:
    left = CLIENT_LEFT.get()
    return left is not None and left()


def is_loopback(uri: str) -> bool:
    """Whether an address is one of this machine: 127.0.0.0/8, ::1 or localhost."""
    import ipaddress

    try:
        host = (urlsplit(uri).hostname or "").rstrip(".")
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


OWN_ADDRESSES: set[str] = set()
"""Beginnings of addresses, ``http://127.0.0.1:PORT``, at which this process plays, sends and records."""


def is_own_address(uri: str) -> bool:
    """Whether a request goes to an address of this process, where it is replayed or recorded."""
    return bool(OWN_ADDRESSES) and uri.startswith(tuple(f"{address}/" for address in OWN_ADDRESSES))


def for_this_thread(refused: BaseException) -> BaseException:
    """Give what is to be raised: a thread that works off a queue would die of what is no Exception."""
    return NothingSent(str(refused)) if (_place.get() or _NOWHERE).serves else refused


def current() -> Scope | None:
    """Give the scope of this context, or else of this thread; None where they belong to none.

    The thread has the word where the context is empty, as ``Context()`` is, and where it is one that was
    copied while an agent was made, which serves many trials.
    """
    place = _place.get()
    if place is None:
        return _thread.scope
    scope = place.scope
    return _thread.scope or scope if scope is not None and scope.lasting else scope


def answering() -> Scope | None:
    """Give the scope that answers the requests of this context; None where they are sent as they are.

    Raises what ends the thread or task of a trial that has ended, and OfNobody where the trial is unknown.
    """
    scope = current()
    if scope is None:
        if of_nobody():
            # Any of the trials under way may have made the request, and the exception may reach nobody.
            for trial in tuple(_trials):
                trial.note(UNKNOWN_TRIAL, _OF_NOBODY)
            raise OfNobody(_OF_NOBODY)
        return None
    if scope.closed:
        # An agent may hold a context of an earlier trial, while this thread works for one that still runs.
        scope = _thread.scope
        if scope is None or scope.closed:
            if (_place.get() or _NOWHERE).serves:
                raise NothingSent(_ENDED)
            # Both pass an agent's ``except Exception``, and neither is reported on standard error.
            with suppress(RuntimeError):
                if asyncio.current_task() is not None:
                    raise asyncio.CancelledError(_ENDED)
            raise ScopeClosed(_ENDED)
    return None if scope.passing and scope.traffic is None else scope


def of_nobody() -> bool:
    """Whether this runs on a loop that all trials share, in a context that names none of them."""
    return bool(_open) and _place.get() is None and is_shared(running_loop())


def belong_to_nobody() -> None:
    """Let requests of this context belong to no trial, unless it names one: our own code runs in it."""
    _place.set((_place.get() or _NOWHERE)._replace(scope=current()))


@contextmanager
def working_for(scope: Scope | None) -> Iterator[None]:
    """Let this thread work for a trial, also in contexts that do not name it."""
    before, _thread.scope = _thread.scope, scope
    try:
        yield
    finally:
        _thread.scope = before


class scoped:
    """While entered, requests of the context belong to the scope; without a loop, those of the thread too.

    Not a generator: each tool call, and each request of ours, comes by here.
    """

    __slots__ = ("_before", "_holds_thread", "_scope", "_token")

    def __init__(self, scope: Scope | None) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        serves = (_place.get() or _NOWHERE).serves
        self._token = _place.set(_Place(self._scope, self._scope, False, serves))
        # On a loop, tasks of several trials take turns in one thread: only the context can tell them apart.
        self._holds_thread = self._scope is not None and running_loop() is None
        if self._holds_thread:
            self._before, _thread.scope = _thread.scope, self._scope

    def __exit__(self, *raised: object) -> None:
        if self._holds_thread:
            _thread.scope = self._before
        # A coroutine that was not run to its end is closed in another context.
        with suppress(ValueError):
            _place.reset(self._token)


def start_serving() -> None:
    """Let this thread, which a trial has started, work for other trials too."""
    # An empty context lets it do so as it is, and stays empty.
    if (place := _place.get()) is not None:
        _place.set(place._replace(may_serve=True))


def serve(giver: Scope | None) -> None:
    """Let requests of this thread or task belong to the trial whose work it takes from a queue.

    ``giver`` is None where the work is no trial's: they belong again to where it was started. What a trial
    itself takes from a queue (an answer, a connection that another one used) is no work, and leaves it.
    """
    place, thread = _place.get() or _NOWHERE, threading.current_thread()
    if of_a_debugger(thread):
        return
    home = place.home
    free = place.may_serve and thread is not threading.main_thread()
    if free or (home is not None and home.closed):
        scope = home if giver is None else giver
        _place.set(place._replace(scope=scope, serves=giver is not None))
        if running_loop() is None:
            _thread.scope = scope


def of_a_debugger(thread: threading.Thread) -> bool:
    """Whether this thread serves a debugger: what it sends is no request of a trial."""
    # pydevd, which debugpy and PyCharm use, marks its threads so.
    return bool(getattr(thread, "is_pydev_daemon_thread", False))


def untaped() -> scoped:
    """Let requests of this context go out, whatever scope is open: for those that are ours."""
    return scoped(None)


def let_out() -> AbstractContextManager[None]:
    """Let requests of this context go out as long as the trial lasts: for what is recorded in another way."""
    return nullcontext() if current() is None else scoped(Scope(passing=True))

"""Limits the requests of one process to each model to what the shares of that model allow."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec.structs import replace

from pytest_agenteval.chat.local.loading import provider_of
from pytest_agenteval.chat.rate_shares import (
    FileShares,
    LimiterReport,
    LocalShares,
    ModelFailure,
    ModelStanding,
    RateLimits,
    RateShare,
    RefusedRequests,
    ShareStore,
)
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.text.errors import ProviderDown

# How many tokens a reply is expected to have until the first one arrived.
REPLY_TOKENS = 256
# Seconds between two exchanges with a shared store at least, and at most until it learns of a reply.
GAP_S, NEWS_S = 0.01, 0.05
# Seconds between reports while requests are under way, far below the LOST_S after which places are lost.
BEAT_S = 2.0
# Seconds between the reports of a process that waits for others' places: from the first to the last.
FIRST_POLL_S, LAST_POLL_S = 0.02, 0.1
RETRY_S = 1.0
CLOSING_S = 1.0


class QueuedRequest:
    """A request that waits or is under way; of its estimated ``tokens`` it sends ``sent``."""

    __slots__ = ("began", "future", "sent", "tokens")

    def __init__(self, sent: int, tokens: int) -> None:
        self.sent, self.tokens = sent, tokens
        self.began = 0.0
        self.future: asyncio.Future[None] | None = None


class RateLimiter:
    """Lets requests to one model start in turn, as many as its share allows.

    It may be used on the loops of several threads. A ``local`` store answers at once. Any other is asked in
    the thread of ``clock``.
    """

    def __init__(
        self, name: str, report: LimiterReport, store: ShareStore, clock: ExchangeThread, *, local: bool
    ) -> None:
        self.name, self.limits = name, report.limits
        self._blank, self._store, self._clock, self._local = report, store, clock, local
        self._lock, self._exchanging = threading.Lock(), threading.Lock()
        self._waiting: deque[QueuedRequest] = deque()
        self._last, self._polls = 0.0, 0
        self.share = RateShare()
        self.in_flight = 0
        self._reply_tokens = float(REPLY_TOKENS)
        self._clear_news()

    def _clear_news(self) -> None:
        self._ended = self._replies = self._further_tokens = 0
        self._refused: Counter[str] = Counter()
        self._refused_wait_s = self._refused_began = 0.0
        self._refusal: ModelFailure | None = None
        self._failure: ModelFailure | None = None
        self._dropped = False

    @property
    def replied(self) -> int:
        """How many replies the model has given to all processes, as far as this one knows."""
        return self.share.replied + self._replies

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def has_ended(self) -> bool:
        """Whether requests ended of which the store does not know yet."""
        return self._ended > 0

    async def enter(self, sent: int = 0, most: int | None = None, *, first: bool = False) -> QueuedRequest:
        """Wait for a turn, ahead of all others if ``first``; raises ProviderDown if the model is down.

        ``sent`` counts the tokens of the request, ``most`` those that its reply may have.
        """
        reply = self._reply_tokens if most is None else min(self._reply_tokens, most)
        request = QueuedRequest(sent, max(1, round(sent + reply)))
        with self._lock:
            self._waiting.insert(0 if first else len(self._waiting), request)
        self._tell(urgent=True)
        with self._lock:
            if request.began:
                return request
            if self.share.down is not None:
                if request in self._waiting:
                    self._waiting.remove(request)
                raise ProviderDown(self.share.down.message)
            request.future = asyncio.get_running_loop().create_future()
        try:
            await request.future
        except BaseException:
            with self._lock:
                waits = request in self._waiting
                if waits:
                    self._waiting.remove(request)
            if request.began and not waits:  # a turn that was given meanwhile goes to the next
                self.drop(request)
            raise
        return request

    def reply(self, request: QueuedRequest, tokens: int | None = None) -> None:
        """Note that a request was answered; ``tokens`` is what it took, None if that is unknown."""
        with self._lock:
            self._end(request, tokens)
            self._replies += 1
        # Where all is well nobody in this process waits for what a reply brings: the next report has it.
        if self._waiting or not self._local or self.share.is_in_trouble:
            self._tell(urgent=bool(self._waiting))

    def refuse(self, request: QueuedRequest, failure: ModelFailure, status: str, wait_s: float) -> None:
        """Note that a request was refused: nothing more starts here until the next share allows it."""
        with self._lock:
            self._end(request, 0)
            self._refused[status] += 1
            self._refusal = failure
            self._refused_wait_s = max(wait_s, self._refused_wait_s)
            self._refused_began = max(request.began, self._refused_began)
        self._tell(urgent=True)

    def drop(self, request: QueuedRequest) -> None:
        """Note that a request ended without a result that says anything about the model."""
        with self._lock:
            self._end(request, None)
            self._dropped = True
        self._tell(urgent=bool(self._waiting))

    def fail(self, request: QueuedRequest, failure: ModelFailure) -> None:
        """Note that the model is down: requests failed often enough, or no other can succeed."""
        with self._lock:
            self._end(request, None)
            self._failure = failure
        self._tell(urgent=True)

    def _end(self, request: QueuedRequest, tokens: int | None) -> None:
        self.in_flight -= 1
        self._ended += 1
        if tokens is None or not self.limits.tokens_per_minute:
            return
        # Now that the real number is known, it replaces the estimate.
        self._further_tokens += tokens - request.tokens
        if tokens:
            # A moving average of the latest replies' length, which the next estimates use.
            self._reply_tokens += 0.1 * (max(0, tokens - request.sent) - self._reply_tokens)

    def _tell(self, *, urgent: bool) -> None:
        if self._local:
            if urgent or self.share.is_in_trouble:
                self.exchange()
        else:
            self._clock.plan(self, max(0.0 if urgent else NEWS_S, self._last + GAP_S - time.monotonic()))

    def exchange(self) -> None:
        """Report what happened, and start what the answer allows."""
        with self._exchanging:  # the reports of one process come in their order
            with self._lock:
                report = self._report()
            while True:
                try:
                    share = self._store.exchange(report)
                    break
                except Exception:  # a full disk, an actor that restarts: nothing begins meanwhile
                    if self._local:
                        raise
                    time.sleep(RETRY_S)
            self._last = time.monotonic()
            self._polls = 0 if share.starts else self._polls + 1
            self._take(share)
        again_s = self._next_s(share)
        if again_s is not None:
            self._clock.plan(self, again_s)

    def _report(self) -> LimiterReport:
        refusals = None
        if self._refusal is not None:
            ago_s = time.monotonic() - self._refused_began
            refusals = RefusedRequests(self._refusal, dict(self._refused), self._refused_wait_s, ago_s)
        counts_tokens = self.limits.tokens_per_minute
        report = replace(
            self._blank,
            waiting=len(self._waiting),
            tokens=tuple(request.tokens for request in self._waiting) if counts_tokens else (),
            ended=self._ended,
            replied=self._replies,
            further_tokens=self._further_tokens,
            refusals=refusals,
            failure=self._failure,
            dropped=self._dropped,
        )
        self._clear_news()
        return report

    def _take(self, share: RateShare) -> None:
        """Start as many as the share allows, or fail all that wait where the model is down."""
        now, given_up = time.monotonic(), 0
        with self._lock:
            self.share = share
            number = len(self._waiting) if share.down else min(share.starts, len(self._waiting))
            ready = [self._waiting.popleft() for _ in range(number)]
            if not share.down:
                self.in_flight += share.starts
                given_up = share.starts - number  # their callers left while the report was under way
                for request in ready:
                    request.began = now
        for request in ready:
            if request.future is None:
                continue
            try:
                # The request may wait on the loop of another thread.
                request.future.get_loop().call_soon_threadsafe(_settle_future, request.future, share.down)
            except RuntimeError:  # its loop is closed: nobody waits there any more
                given_up += not share.down
        with self._lock:
            self.in_flight -= given_up
            self._ended += given_up
            self._dropped |= given_up > 0

    def _next_s(self, share: RateShare) -> float | None:
        """Give the seconds until the next exchange, if nothing else happens; None for never."""
        if self._waiting and not self.share.down:
            if self._local:
                return share.again_s or (LAST_POLL_S if share.is_in_trouble else None)
            poll_s = min(LAST_POLL_S, FIRST_POLL_S * 2.0**self._polls)
            return max(GAP_S, share.again_s if share.is_in_trouble and share.again_s else poll_s)
        if self._ended:
            return 0.0
        return BEAT_S if self.in_flight and not self._local else None


def _settle_future(future: asyncio.Future[None], down: ModelFailure | None) -> None:
    if not future.done():
        if down is None:
            future.set_result(None)
        else:
            future.set_exception(ProviderDown(down.message))


class ExchangeThread:
    """A thread that has limiters exchange reports when they are due."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[RateLimiter, float] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def plan(self, limiter: RateLimiter, seconds: float) -> None:
        """Have a limiter exchange in so many seconds, if it does not sooner."""
        at = time.monotonic() + seconds
        with self._changed:
            if self._closed or at >= self._due.get(limiter, float("inf")):
                return
            self._due[limiter] = at
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agenteval-rates", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """End the thread; exchanges that are still due are dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSING_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closed:
                    left = min(self._due.values(), default=float("inf")) - time.monotonic()
                    if left <= 0:
                        break
                    self._changed.wait(min(left, threading.TIMEOUT_MAX))
                if self._closed:
                    return
                limiter = min(self._due, key=self._due.__getitem__)
                del self._due[limiter]
            limiter.exchange()


class RateLimiters:
    """The rate limiters of this process, one for each model, with shares from ``store`` or else ``shares``.

    ``most`` is how many requests to one model this process would have under way at once.
    """

    def __init__(self, store: ShareStore | None = None, most: int = 64) -> None:
        self._store, self._most = store, most
        self.shares, self._lock = LocalShares(), threading.Lock()
        self._clock = ExchangeThread()
        self.process = f"{os.getpid()}.{os.urandom(3).hex()}"
        self._limiters: dict[str, RateLimiter] = {}

    def limiter(self, model: str, name: str, limits: RateLimits, *, private: bool = False) -> RateLimiter:
        """Give the rate limiter of a model; a ``private`` model is not shared with other processes."""
        with self._lock:
            limiter = self._limiters.get(model)
            if limiter is None:
                store = self.shares if private or self._store is None else self._store
                report = LimiterReport(self.process, model, name, limits, self._most)
                local = store is self.shares
                limiter = RateLimiter(name, report, store, self._clock, local=local)
                self._limiters[model] = limiter
            return limiter

    async def close(self) -> None:
        """End the thread; the store learns of what ended last."""
        self._clock.close()
        for limiter in self._limiters.values():
            if limiter.has_ended:
                with suppress(TimeoutError):
                    await asyncio.wait_for(in_daemon_thread(limiter.exchange), CLOSING_S)


def limiter_of(
    limiters: RateLimiters, model: Model, limits: Mapping[str, Mapping[str, float]]
) -> RateLimiter:
    """Give the rate limiter of a model, with the limits of its name, or else those of the empty name."""
    own = from_builtins(RateLimits, limits.get(model.name) or limits.get("") or {})
    provider = provider_of(model.id)
    if provider is not None:  # on this machine: nobody there refuses requests
        own = replace(own, at_start=sys.maxsize)
    return limiters.limiter(limiter_key(model), model.name, own, private=provider == "hf")


def limiter_key(model: Model) -> str:
    """Give the key of a model's limits: its id, its address and the name of its key."""
    return " ".join((model.id, str(model.params.get("api_base", "")), model.api_key_env)).rstrip()


_LIMITERS: WeakValueDictionary[str, RateLimiters] = WeakValueDictionary()


def limiters_at(place: str, make: Callable[[], RateLimiters]) -> RateLimiters:
    """Give the rate limiters of a run in this process; the first caller makes them."""
    limiters = _LIMITERS.get(place)
    if limiters is None:
        limiters = _LIMITERS[place] = make()
    return limiters


def standings_at(place: str) -> tuple[ModelStanding, ...]:
    """Give how a run's models fared, from this process and from the run's file."""
    limiters = _LIMITERS.get(place)
    own = limiters.shares.standings() if limiters is not None else ()
    return own + (FileShares(Path(place)).standings() if Path(place).is_file() else ())

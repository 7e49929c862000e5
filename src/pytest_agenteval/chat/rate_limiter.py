"""Limits the requests of one process to each model to the process's share of that model."""

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
    LimiterReport,
    LocalShares,
    ModelFailure,
    ModelStanding,
    RateLimits,
    RateShare,
    RefusedRequests,
    ShareStore,
    read_standings,
)
from pytest_agenteval.processes.files import LockedState
from pytest_agenteval.records.plan import Model
from pytest_agenteval.records.record import from_builtins
from pytest_agenteval.text.errors import ProviderDown

# How many tokens a reply is expected to have until the first one arrived.
REPLY_TOKENS = 256


class QueuedRequest:
    """A request that waits or is under way; of its estimated ``tokens`` it sends ``sent``."""

    __slots__ = ("began", "future", "sent", "tokens")

    def __init__(self, sent: int, tokens: int) -> None:
        self.sent, self.tokens = sent, tokens
        self.began = 0.0
        self.future: asyncio.Future[None] | None = None


class RateLimiter:
    """Lets requests to one model start in turn, as many as the share of this process allows.

    It may be used on the loops of several threads. When something happens, it calls ``report`` with itself
    and with whether that is urgent; ``report`` calls ``take_report`` and, at once or later, ``take_share``.
    """

    def __init__(
        self,
        model: str,
        name: str,
        limits: RateLimits,
        most: int,
        process: str,
        report: Callable[[RateLimiter, bool], None],
    ) -> None:
        self.model, self.name, self.limits = model, name, limits
        self._most, self._process, self._report = most, process, report
        self._lock = threading.Lock()
        self._waiting: deque[QueuedRequest] = deque()
        self._share, self._starts, self._tokens = RateShare(), 0, 0
        self._is_reporting = False
        self.in_flight = 0
        self._reply_tokens = float(REPLY_TOKENS)
        self._clear_news()

    def _clear_news(self) -> None:
        self._started = self._replies = 0
        self._refused: Counter[str] = Counter()
        self._refused_wait_s = self._refused_began = 0.0
        self._refusal: ModelFailure | None = None
        self._failure: ModelFailure | None = None
        self._dropped = False

    @property
    def share(self) -> RateShare:
        return self._share

    @property
    def replied(self) -> int:
        """How many replies the model has given to all processes, as far as this one knows."""
        return self._share.replied + self._replies

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def waits_for_time(self) -> bool:
        """Whether the first in line waits for time to pass, and not for another request to end."""
        share, has_place = self._share, self.in_flight < self._share.at_once
        return bool(self._waiting) and (has_place or share.is_in_trouble)

    @property
    def has_news(self) -> bool:
        """Whether anything happened since the last report."""
        return bool(self._started or self._replies or self._refusal or self._failure or self._dropped)

    async def enter(self, sent: int = 0, most: int | None = None, *, first: bool = False) -> QueuedRequest:
        """Wait for a turn, ahead of all others if ``first``; raises ProviderDown if the model is down.

        ``sent`` counts the tokens of the request, ``most`` those that its reply may have.
        """
        reply = self._reply_tokens if most is None else min(self._reply_tokens, most)
        request = QueuedRequest(sent, max(1, round(sent + reply)))
        if self._share.down is not None:
            raise ProviderDown(self._share.down.message)
        with self._lock:
            if (first or not self._waiting) and self._may_begin(request):
                self._begin(request)
                return request
            request.future = asyncio.get_running_loop().create_future()
            self._waiting.insert(0 if first else len(self._waiting), request)
        # Outside the lock: a report within this process returns with a new share, which takes the lock.
        self._report(self, True)
        # The new share may have started the request already.
        if request.began:
            return request
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
        self._report(self, False)

    def refuse(self, request: QueuedRequest, failure: ModelFailure, status: str, wait_s: float) -> None:
        """Note that a request was refused: nothing more starts here until the next share allows it."""
        with self._lock:
            self._end(request, 0)
            self._refused[status] += 1
            self._refusal = failure
            self._refused_wait_s = max(wait_s, self._refused_wait_s)
            self._refused_began = max(request.began, self._refused_began)
        self._report(self, True)

    def drop(self, request: QueuedRequest) -> None:
        """Note that a request ended without a result that says anything about the model."""
        with self._lock:
            self._end(request, None)
            self._dropped = True
        self._report(self, False)

    def fail(self, request: QueuedRequest, failure: ModelFailure) -> None:
        """Note that the model is down: requests failed often enough, or no other can succeed."""
        with self._lock:
            self._end(request, None)
            self._failure = failure
        self._report(self, True)

    def take_report(self, *, leaving: bool = False) -> LimiterReport:
        """Give what happened since the last report; nothing starts until ``take_share`` gets the answer."""
        now = time.monotonic()
        with self._lock:
            refusals = None
            if self._refusal is not None:
                ago_s = now - self._refused_began
                refusals = RefusedRequests(self._refusal, dict(self._refused), self._refused_wait_s, ago_s)
            counts_tokens = self.limits.tokens_per_minute
            report = LimiterReport(
                process=self._process,
                model=self.model,
                name=self.name,
                limits=self.limits,
                most=0 if leaving else self._most,
                in_flight=self.in_flight,
                waiting=len(self._waiting),
                tokens=sum([request.tokens for request in self._waiting]) if counts_tokens else 0,
                started=self._started,
                replied=self._replies,
                unused_starts=self._starts,
                unused_tokens=self._tokens,
                refusals=refusals,
                failure=self._failure,
                dropped=self._dropped,
            )
            self._starts = self._tokens = 0
            self._is_reporting = True
            self._clear_news()
        return report

    def take_share(self, share: RateShare) -> None:
        """Start what the share allows, or fail all that wait where the model is down."""
        with self._lock:
            self._share, self._is_reporting = share, False
            self._starts, self._tokens = share.starts or 0, share.tokens or 0
            ready: list[QueuedRequest] = []
            if share.down is not None:
                ready = list(self._waiting)
                self._waiting.clear()
            while self._waiting and self._may_begin(self._waiting[0]):
                ready.append(self._waiting.popleft())
                self._begin(ready[-1])
        for request in ready:
            if request.future is None:
                continue
            try:
                # The request may wait on the loop of another thread.
                request.future.get_loop().call_soon_threadsafe(_settle_future, request.future, share.down)
            except RuntimeError:  # its loop is closed: nobody waits there any more
                if share.down is None:
                    self.drop(request)

    def _may_begin(self, request: QueuedRequest) -> bool:
        share = self._share
        if self._is_reporting or self._refusal or self._failure or self.in_flight >= share.at_once:
            return False
        if share.starts is not None and self._starts < 1:
            return False
        # A request that needs more than the bucket holds starts all the same, with all that there is.
        return share.tokens is None or self._tokens >= min(request.tokens, max(1, share.tokens))

    def _begin(self, request: QueuedRequest) -> None:
        request.began = time.monotonic()
        self.in_flight += 1
        self._started += 1
        if self._share.starts is not None:
            self._starts -= 1
        if self._share.tokens is not None:
            self._tokens -= request.tokens

    def _end(self, request: QueuedRequest, tokens: int | None) -> None:
        self.in_flight -= 1
        if tokens is None or not self.limits.tokens_per_minute:
            return
        # Now that the real number is known, it replaces the estimate.
        self._tokens += request.tokens - tokens
        if tokens:
            # A moving average of the latest replies' length, which the next estimates use.
            self._reply_tokens += 0.1 * (max(0, tokens - request.sent) - self._reply_tokens)


def _settle_future(future: asyncio.Future[None], down: ModelFailure | None) -> None:
    if future.done():
        return
    if down is None:
        future.set_result(None)
    else:
        with suppress(asyncio.InvalidStateError):
            future.set_exception(ProviderDown(down.message))


THREAD_NAME = "agenteval-rates"
# Seconds between two exchanges with the store at least.
GAP_S = 0.01
# Seconds after which a process reports changes that have no immediate effect on others.
NEWS_S = 0.25
# Seconds after which a process reports if others wait for the places that it gives back.
WANTED_S = 0.02
# Seconds between reports while requests are under way, far below the LOST_S after which a share is lost.
BEAT_S = 2.0
# Seconds without requests after which a process gives its places back.
IDLE_S = 1.0
# Seconds between the reports of a process that waits for others' places. They get longer.
POLLS_S = (0.02, 0.04, 0.08, 0.16, 0.25)
RETRY_S = 1.0
CLOSING_S = 1.0


class TimerThread:
    """A thread with a loop that exchanges reports for shares and waits for due times."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def soon(self, call: Callable[[], object]) -> None:
        """Call something on the thread's loop; do nothing after ``close``."""
        with self._starting:
            if self._loop is None and not self._closed:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name=THREAD_NAME, daemon=True
                )
                self._thread.start()
            loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(call)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        self.soon(lambda: asyncio.get_running_loop().call_later(seconds, call))

    def close(self) -> None:
        """End the thread; calls that are still due are dropped."""
        with self._starting:
            self._closed = True
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(CLOSING_S)
                self._loop = self._thread = None


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        # Else asyncio would complain of tasks that were destroyed while they were pending.
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    finally:
        loop.close()


class RateLimiters:
    """The rate limiters of this process, one for each model, with shares from ``store`` or else ``shares``.

    ``most`` is how many requests to one model this process would have under way at once.
    """

    def __init__(self, store: ShareStore | None = None, most: int = 64) -> None:
        self._store, self._most = store, most
        self.shares, self._lock = LocalShares(), threading.RLock()
        self._timer_thread = TimerThread()
        self.process = f"{os.getpid()}.{os.urandom(3).hex()}"
        self._limiters: dict[str, RateLimiter] = {}
        self._store_exchanges: dict[RateLimiter, _StoreExchange] = {}
        self._due: dict[RateLimiter, float] = {}

    def limiter(self, model: str, name: str, limits: RateLimits, *, private: bool = False) -> RateLimiter:
        """Give the rate limiter of a model; a ``private`` model is not shared with other processes."""
        with self._lock:
            limiter = self._limiters.get(model)
            if limiter is None:
                shared = self._store is not None and not private
                report = self._report_to_store if shared else self._report_locally
                limiter = self._limiters[model] = RateLimiter(
                    model, name, limits, self._most, self.process, report
                )
                if shared and self._store is not None:
                    self._store_exchanges[limiter] = _StoreExchange(limiter, self._store, self._timer_thread)
            return limiter

    def standings(self) -> tuple[ModelStanding, ...]:
        """Give the standings of the models whose shares this process holds itself."""
        with self._lock:
            return self.shares.standings()

    def share(self, model: str) -> RateShare | None:
        """Give the latest share of a model; None for one that this process has not used."""
        limiter = self._limiters.get(model)
        return None if limiter is None else limiter.share

    async def close(self) -> None:
        """Return every share to the store, and end the thread."""
        self._timer_thread.close()
        if self._store is not None and any(limiter.share.at_once for limiter in self._store_exchanges):
            await self._store.leave(self.process)

    def _report_to_store(self, limiter: RateLimiter, urgent: bool) -> None:
        self._store_exchanges[limiter].wake(urgent=urgent)

    def _report_locally(self, limiter: RateLimiter, urgent: bool) -> None:
        with self._lock:  # reports of one limiter come in their order
            share = self.shares.exchange(limiter.take_report())
            limiter.take_share(share)
            if limiter.waits_for_time:
                self._report_later(limiter, share.again_s)

    def _report_later(self, limiter: RateLimiter, seconds: float) -> None:
        due = time.monotonic() + seconds
        if due >= self._due.get(limiter, float("inf")):
            return
        self._due[limiter] = due

        def report_again() -> None:
            with self._lock:
                if self._due.get(limiter) == due:
                    del self._due[limiter]
                    self._report_locally(limiter, True)

        self._timer_thread.later(seconds, report_again)


class _StoreExchange:
    """Exchanges one limiter's reports for shares of the store: at once if a request waits, else rarely."""

    def __init__(self, limiter: RateLimiter, store: ShareStore, timer_thread: TimerThread) -> None:
        self._limiter, self._store, self._timer_thread = limiter, store, timer_thread
        self._timer: asyncio.TimerHandle | None = None
        self._is_planned = self._is_urgent = self._is_busy = False
        self._last, self._polls = 0.0, 0

    def wake(self, *, urgent: bool) -> None:
        """Plan an exchange; may be called from any thread."""
        if self._is_urgent or (self._is_planned and not urgent):
            return
        self._is_planned, self._is_urgent = True, urgent
        self._timer_thread.soon(self._plan)

    def _plan(self) -> None:
        if not self._is_busy:  # else it is looked at when that is over
            soon = WANTED_S if self._limiter.share.others_wait else NEWS_S
            self._set_timer(0.0 if self._is_urgent else soon)

    def _set_timer(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = max(loop.time() + seconds, self._last + GAP_S)
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._start)

    def _start(self) -> None:
        self._timer, self._is_busy = None, True
        task = asyncio.get_running_loop().create_task(self._exchange())
        task.add_done_callback(_retrieve_exception)

    async def _exchange(self) -> None:
        limiter = self._limiter
        self._is_planned = self._is_urgent = False
        leaving = not (limiter.in_flight or limiter.waiting or limiter.has_news)
        report = limiter.take_report(leaving=leaving)
        while True:
            try:
                share = await self._store.exchange(report)
                break
            except Exception:  # a full disk, an actor that is being restarted: nothing may begin meanwhile
                await asyncio.sleep(RETRY_S)
        self._last = asyncio.get_running_loop().time()
        started = limiter.in_flight
        limiter.take_share(share)
        self._polls = 0 if limiter.in_flight > started else self._polls + 1
        self._is_busy = False
        seconds = self._next_s(share)
        if seconds is not None:
            self._set_timer(seconds)
        if self._is_planned:
            self._plan()

    def _next_s(self, share: RateShare) -> float | None:
        """Give the seconds until the next exchange, if nothing else happens; None for never."""
        limiter = self._limiter
        if limiter.waiting:
            poll_s = POLLS_S[min(self._polls, len(POLLS_S) - 1)]
            return share.again_s if limiter.waits_for_time else min(share.again_s, poll_s)
        if limiter.in_flight:
            return WANTED_S if share.others_wait and share.at_once > limiter.in_flight else BEAT_S
        return IDLE_S if share.at_once else None


def _retrieve_exception(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


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
    own = limiters.standings() if limiters is not None else ()
    if not Path(place).is_file():
        return own
    return own + read_standings(LockedState(Path(place)))

"""The line of one process before one model: who may ask now, and what came of it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from pytest_agenteval.chat.rate_limiting.exchange import Failure, Limits, Refusals, Report, Share
from pytest_agenteval.text.errors import ProviderDown

REPLY_TOKENS = 256
"""Tokens that a reply is taken to have before any has come."""


class Turn:
    """A request that waits or is under way.

    ``sent`` are the tokens that it sends, ``tokens`` those that it will take, as far as anybody can tell.
    """

    __slots__ = ("began", "future", "sent", "tokens")

    def __init__(self, sent: int, tokens: int) -> None:
        self.sent, self.tokens = sent, tokens
        self.began = 0.0
        self.future: asyncio.Future[None] | None = None


class Gate:
    """Lets requests to one model through in turn, as many as the process has a share for.

    May be used on the loops of several threads. ``tell`` is called, with whether that is urgent, when there
    is something to report: it takes the report and brings a share, at once or later.
    """

    def __init__(
        self,
        model: str,
        name: str,
        limits: Limits,
        most: int,
        process: str,
        tell: Callable[[Gate, bool], None],
    ) -> None:
        self.model, self.name, self.limits = model, name, limits
        self._most, self._process, self._tell = most, process, tell
        self._lock = threading.Lock()
        self._line: deque[Turn] = deque()
        self._share, self._starts, self._tokens = Share(), 0, 0
        self._is_telling = False
        self.in_flight = 0
        self._reply_tokens = float(REPLY_TOKENS)
        self._clear_news()

    def _clear_news(self) -> None:
        self._begun = self._replies = 0
        self._refused: Counter[str] = Counter()
        self._refused_wait_s = self._refused_began = 0.0
        self._refusal: Failure | None = None
        self._failure: Failure | None = None
        self._dropped = False

    @property
    def share(self) -> Share:
        """What the process may do, as it was told last."""
        return self._share

    @property
    def replied(self) -> int:
        """How many replies the model has given, to anybody, as far as this process knows."""
        return self._share.replied + self._replies

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._line)

    @property
    def waits_for_time(self) -> bool:
        """Whether what the first in line waits for comes with time, and not when another request ends."""
        share, has_place = self._share, self.in_flight < self._share.at_once
        return bool(self._line) and (has_place or share.is_in_trouble)

    @property
    def has_news(self) -> bool:
        """Whether anything has happened that nobody has been told."""
        return bool(self._begun or self._replies or self._refusal or self._failure or self._dropped)

    async def enter(self, sent: int = 0, most: int | None = None, *, first: bool = False) -> Turn:
        """Wait for a turn, ``first`` of all or behind the others; raises ProviderDown where there is none.

        ``sent`` are the tokens of the request, ``most`` those that its reply may have.
        """
        reply = self._reply_tokens if most is None else min(self._reply_tokens, most)
        turn = Turn(sent, max(1, round(sent + reply)))
        if self._share.down is not None:
            raise ProviderDown(self._share.down.message)
        with self._lock:
            if (first or not self._line) and self._may_begin(turn):
                self._begin(turn)
                return turn
            turn.future = asyncio.get_running_loop().create_future()
            self._line.insert(0 if first else len(self._line), turn)
        self._tell(self, True)
        if turn.began:
            return turn
        try:
            await turn.future
        except BaseException:
            self._give_up(turn)
            raise
        return turn

    def reply(self, turn: Turn, tokens: int | None = None) -> None:
        """Note that a request was answered, and what it took, where that is known."""
        with self._lock:
            self._end(turn, tokens)
            self._replies += 1
        self._tell(self, False)

    def refuse(self, turn: Turn, failure: Failure, status: str, wait_s: float) -> None:
        """Note that a request was put off: nothing more begins here until it is said for how long."""
        with self._lock:
            self._end(turn, 0)
            self._refused[status] += 1
            self._refusal = failure
            self._refused_wait_s = max(wait_s, self._refused_wait_s)
            self._refused_began = max(turn.began, self._refused_began)
        self._tell(self, True)

    def drop(self, turn: Turn) -> None:
        """Note that a request came to no end that says anything of the model."""
        with self._lock:
            self._end(turn, None)
            self._dropped = True
        self._tell(self, False)

    def fail(self, turn: Turn, failure: Failure) -> None:
        """Note that the model cannot be had: it was tried often enough, or there is no hope."""
        with self._lock:
            self._end(turn, None)
            self._failure = failure
        self._tell(self, True)

    def take_report(self, *, leaving: bool = False) -> Report:
        """Give what has happened since the last report; nothing begins until the share for it is there."""
        now = time.monotonic()
        with self._lock:
            refusals = None
            if self._refusal is not None:
                ago_s = now - self._refused_began
                refusals = Refusals(self._refusal, dict(self._refused), self._refused_wait_s, ago_s)
            report = Report(
                process=self._process,
                model=self.model,
                name=self.name,
                limits=self.limits,
                most=0 if leaving else self._most,
                in_flight=self.in_flight,
                waiting=len(self._line),
                tokens=sum([turn.tokens for turn in self._line]) if self.limits.tokens_per_minute else 0,
                begun=self._begun,
                replied=self._replies,
                unused_starts=self._starts,
                unused_tokens=self._tokens,
                refusals=refusals,
                failure=self._failure,
                dropped=self._dropped,
            )
            self._starts = self._tokens = 0
            self._is_telling = True
            self._clear_news()
        return report

    def take_share(self, share: Share) -> None:
        """Obey a share: begin what may begin, and tell all who wait where the model is gone."""
        with self._lock:
            self._share, self._is_telling = share, False
            self._starts, self._tokens = share.starts or 0, share.tokens or 0
            ready = self._failed() if share.down is not None else self._ready()
        for turn in ready:
            self._wake(turn, share.down)

    def _may_begin(self, turn: Turn) -> bool:
        share = self._share
        if self._is_telling or self._refusal or self._failure or self.in_flight >= share.at_once:
            return False
        if share.starts is not None and self._starts < 1:
            return False
        # One that needs more than there ever is begins all the same, with all that there is.
        return share.tokens is None or self._tokens >= min(turn.tokens, max(1, share.tokens))

    def _begin(self, turn: Turn) -> None:
        turn.began = time.monotonic()
        self.in_flight += 1
        self._begun += 1
        if self._share.starts is not None:
            self._starts -= 1
        if self._share.tokens is not None:
            self._tokens -= turn.tokens

    def _end(self, turn: Turn, tokens: int | None) -> None:
        self.in_flight -= 1
        if tokens is None or not self.limits.tokens_per_minute:
            return
        self._tokens += turn.tokens - tokens
        if tokens:
            self._reply_tokens += 0.1 * (max(0, tokens - turn.sent) - self._reply_tokens)

    def _ready(self) -> Sequence[Turn]:
        ready = []
        while self._line and self._may_begin(self._line[0]):
            turn = self._line.popleft()
            self._begin(turn)
            ready.append(turn)
        return ready

    def _failed(self) -> Sequence[Turn]:
        failed = tuple(self._line)
        self._line.clear()
        return failed

    def _wake(self, turn: Turn, down: Failure | None) -> None:
        future = turn.future
        if future is None:
            return
        try:
            future.get_loop().call_soon_threadsafe(_settle, future, down)
        except RuntimeError:  # its loop is closed: nobody waits there any more
            if down is None:
                self.drop(turn)

    def _give_up(self, turn: Turn) -> None:
        """Wait no longer; a turn that was given meanwhile goes to the next."""
        with self._lock:
            if turn in self._line:
                self._line.remove(turn)
                return
        if turn.began:
            self.drop(turn)


def _settle(future: asyncio.Future[None], down: Failure | None) -> None:
    if future.done():
        return
    if down is None:
        future.set_result(None)
    else:
        with suppress(asyncio.InvalidStateError):
            future.set_exception(ProviderDown(down.message))

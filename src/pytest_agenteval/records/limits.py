"""What a trial may use, what it has used, the clock it sees; and how many requests are under way at once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType

from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.text.errors import LimitIgnored, LimitReached

MOST_REFUSED = 20
"""How often an agent may go on asking after its limit was reached."""


class Clock:
    """The date and time that an agent sees: fixed where the task says so, else the real one."""

    def __init__(self, fixed: str | None = None) -> None:
        self._fixed = None if fixed is None else datetime.fromisoformat(fixed)

    def now(self) -> datetime:
        """Give the moment it is, for the agent."""
        return self._fixed or datetime.now(UTC)


@dataclass(slots=True, eq=False)
class TimeSpan:
    """A stretch of a trial's time, in seconds since it began: ``own`` time counts, ``frozen`` never does."""

    began: float
    ended: float
    own: bool = False
    frozen: bool = False


class Budget:
    """What one trial has used of its allowance; asked before each step, told after it.

    There are two figures, both from ``begin`` on. ``elapsed`` is what people see: all that passes, without
    the wait for a slot or for a client library. ``seconds`` is what a limit counts: forgiven time (back-off,
    failed attempts, imports, a busy process) is left out, too. Where several requests are under way at once,
    a moment is forgiven once, and only while none of them is being answered.
    """

    def __init__(self, allowed: Allowance, now: Callable[[], float] = time.monotonic) -> None:
        self.allowed = allowed
        self._now = now
        self._began = now()
        self._forgiven = 0.0
        self._answered_at: float | None = None
        self._spans: list[TimeSpan] = []
        self._held_up: list[TimeSpan] = []
        self._open, self._forgiven_of_spans = 0, 0.0
        self._excluding, self._excluded_s, self._counted_at = 0, 0.0, 0.0
        self._lock = threading.RLock()
        self.steps = 0
        self.tokens = 0
        self.cost_usd = 0.0
        self.forgiving: Callable[[float], None] | None = None
        self.catching_up: Callable[[], None] | None = None
        self.pending_freeze: Callable[[], float] | None = None
        self.threads: set[int] = set()
        self.loops: set[int] = set()
        self.reached: LimitReached | None = None
        self._refused = 0

    def begin(self) -> None:
        """Start the clock: what came before, such as imports and the starting workspace, does not count."""
        self._began, self._forgiven = self._now(), 0.0
        self._spans, self._forgiven_of_spans = [], 0.0
        self._excluded_s = self._counted_at = 0.0

    @property
    def at(self) -> float:
        """Seconds since the trial began, waiting included."""
        return self._now() - self._began

    @property
    def seconds(self) -> float:
        """Seconds that have passed and count against the limit; two reasons may forgive the same wait."""
        return self.at - self._forgiven

    @property
    def elapsed(self) -> float:
        """Seconds that have passed, without those in which all requests under way were ``excluded``."""
        with self._lock:
            self._count_excluded()
            return self.at - self._excluded_s

    @property
    def seconds_left(self) -> float | None:
        """Seconds of the trial's own that are left, or None where there is no limit."""
        return None if self.allowed.seconds is None else self.allowed.seconds - self.seconds

    def forgive(self, seconds: float) -> None:
        """Leave out seconds that were not the trial's own."""
        self._forgiven += seconds
        if self.forgiving is not None:
            self.forgiving(seconds)

    def catch_up(self) -> None:
        """Forgive what others have held up and was not counted yet: the seconds are right then."""
        self.forgive_pending()
        if self.catching_up is not None:
            self.catching_up()

    def note_place(self) -> None:
        """Note that the agent runs in this thread, and on the loop that runs here."""
        self.threads.add(threading.get_ident())
        with suppress(RuntimeError):
            self.loops.add(id(asyncio.get_running_loop()))

    def note_answer(self) -> None:
        """Note that an agent in a thread has answered, which a busy loop may hear of much later."""
        self._answered_at = self.at

    def forgive_wait_of_answer(self) -> None:
        """Leave out what an answer has waited for the loop; nothing where there is none yet."""
        if self._answered_at is not None:
            waited, self._answered_at = self.at - self._answered_at, None
            self.forgive(waited)

    @contextmanager
    def held_up(self, at_most: float) -> Iterator[TimeSpan]:
        """Forgive the time of the block from its beginning on; what was too much is taken back at its end."""
        with self._lock:
            self.forgive_pending()
            span = TimeSpan(self.at, self.at + at_most)
            self._spans.append(span)
            self._held_up.append(span)
            self._count_excluded()
            self._open += 1
            self._settle()
        try:
            yield span
        finally:
            with self._lock:
                self.forgive_pending()
                span.ended = self.at
                self._held_up.remove(span)
                self._count_excluded()
                self._open -= 1
                self._settle()

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Leave the time of the block out of what people see: a request waits for its turn, or for a library.

        To be used within ``held_up``; while another request is under way the time counts.
        """
        with self._lock:
            self._count_excluded()
            self._excluding += 1
        try:
            yield
        finally:
            with self._lock:
                self._count_excluded()
                self._excluding -= 1

    def _count_excluded(self) -> None:
        now = self.at
        if self._excluding and self._excluding == self._open:
            self._excluded_s += now - self._counted_at
        self._counted_at = now

    def forgive_frozen(self, seconds: float) -> None:
        """Forgive the last seconds, in which nothing of the trial could go on, whatever it waited for."""
        with self._lock:
            frozen = TimeSpan(max(0.0, self.at - seconds), self.at, frozen=True)
            self._spans.append(frozen)
            # Within a time that is forgiven already it counts once that ends, and only if it was own.
            if not any(span.began <= frozen.began and frozen.ended <= span.ended for span in self._held_up):
                self._settle()

    def forgive_pending(self) -> None:
        """Forgive what froze the trial since the last time, before it begins or ends to be held up.

        So it counts where it was: within what is forgiven already, or beside that.
        """
        with self._lock:
            if self.pending_freeze is not None and (seconds := self.pending_freeze()) > 0:
                self.forgive_frozen(seconds)

    def charge(self, seconds: float) -> None:
        """Count the last seconds as the trial's own, though it is held up by what they are a part of."""
        with self._lock:
            self._spans.append(TimeSpan(self.at - seconds, self.at, own=True))
            self._settle()

    def begin_request(self) -> None:
        """Note that a request is under way whose outcome says whether its time counts; to be ended once."""
        with self._lock:
            self._count_excluded()
            self._open += 1

    def end_request(self, began: float, ended: float, *, failed: bool) -> None:
        """Count the time of a request that was answered; forgive what only failing ones took."""
        with self._lock:
            self._spans.append(TimeSpan(began, ended, own=not failed))
            self._count_excluded()
            self._open -= 1
            self._settle()

    def _settle(self) -> None:
        frozen = [span for span in self._spans if span.frozen]
        own = [span for span in self._spans if span.own]
        forgiven = _covered_seconds(self._spans)
        if own or frozen:
            forgiven = forgiven - _covered_seconds(own + frozen) + _covered_seconds(frozen)
        changed, self._forgiven_of_spans = forgiven - self._forgiven_of_spans, forgiven
        if not self._open:
            self._spans, self._forgiven_of_spans = [], 0.0
        self.forgive(changed)

    def step(self) -> None:
        """Begin one more step, which is one request to the model.

        Raises LimitReached when the allowance of steps, seconds, tokens or money is used up.
        """
        allowed = self.allowed
        self.catch_up()
        self._within("steps", allowed.steps, self.steps)
        self._within("tokens", allowed.tokens, self.tokens)
        self._within("cost_usd", allowed.cost_usd, self.cost_usd)
        if allowed.seconds is not None:
            self._within("seconds", allowed.seconds, self.seconds, elapsed=self.elapsed)
        self.steps += 1

    def undo_step(self) -> None:
        """Take a step back: the request brought no reply, and may be made again."""
        with self._lock:
            self.steps -= 1

    def spend(self, usage: Usage) -> None:
        """Count what a reply took."""
        self.tokens += usage.known_tokens
        self.cost_usd += usage.known_cost_usd

    def _within(self, limit: str, allowed: float | None, used: float, elapsed: float = 0.0) -> None:
        if allowed is None or used < allowed:
            return
        self.reached = LimitReached(limit, allowed, used, elapsed)
        self._refused += 1
        if self._refused > MOST_REFUSED:
            raise LimitIgnored(str(self.reached))
        raise self.reached


def _covered_seconds(spans: Iterable[TimeSpan]) -> float:
    covered, until = 0.0, float("-inf")
    for span in sorted(spans, key=lambda span: span.began):
        began, ended = span.began if span.began > until else until, span.ended
        if ended > began:
            covered += ended - began
            until = ended
    return covered


class CrossLoopSemaphore:
    """A number of places, taken in the order in which callers wait: ``async with places: ...``.

    An agent in a thread may ask on a loop of its own: asyncio's semaphore belongs to the first loop that
    waits for it, and is not for threads.
    """

    def __init__(self, number: int) -> None:
        self._free = number
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            with self._lock:
                given = turn not in self._waiting
                if not given:
                    self._waiting.remove(turn)
            if given:  # a place that was given meanwhile goes to the next
                self._pass_on()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                with suppress(RuntimeError):  # its loop is closed: nobody waits there any more
                    turn.get_loop().call_soon_threadsafe(_begin, turn)
                    return
            self._free += 1


def _begin(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)

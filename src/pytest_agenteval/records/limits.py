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

# How many requests of an agent are refused after its limit was reached, before the trial is ended.
MOST_REFUSED = 20


class Clock:
    """The date and time that an agent sees: fixed where the task says so, else the real one."""

    def __init__(self, fixed: str | None = None) -> None:
        self._fixed = None if fixed is None else datetime.fromisoformat(fixed)

    def now(self) -> datetime:
        """Give the current moment, for the agent."""
        return self._fixed or datetime.now(UTC)


@dataclass(slots=True, eq=False)
class TimeSpan:
    """A stretch of a trial's time, in seconds since it began: ``own`` time counts, ``frozen`` never does."""

    began: float
    ended: float
    own: bool = False
    frozen: bool = False


class Budget:
    """What one trial has used of its allowance; checked before each step, updated after it.

    There are two figures, both from ``begin`` on. ``elapsed`` is what people see: all time that passes,
    without the wait for a slot or for a client library. ``seconds`` is what a limit counts: it leaves out
    forgiven time as well (back-off, failed attempts, imports, a busy process). Where several requests are
    under way at once, a moment is forgiven once, and only while none of them is being answered.
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
        # Reentrant: ``held_up`` forgives what is pending, which takes it too.
        self._lock = threading.RLock()
        self.steps = 0
        self.tokens = 0
        self.cost_usd = 0.0
        # The engine sets these three while the agent runs: to put off its deadline, to look for stalls of the
        # loop, and to ask for the time that setting up other trials took on the loop.
        self.forgiving: Callable[[float], None] | None = None
        self.catching_up: Callable[[], None] | None = None
        self.pending_freeze: Callable[[], float] | None = None
        # Where the agent runs: an import that holds up one of these is forgiven to this trial.
        self.threads: set[int] = set()
        self.loops: set[int] = set()
        self.reached: LimitReached | None = None
        self._refused = 0

    def begin(self) -> None:
        """Start the clock: imports and the starting workspace, which came before, do not count."""
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
        """Seconds that the trial's limit leaves, or None where there is no limit."""
        return None if self.allowed.seconds is None else self.allowed.seconds - self.seconds

    def forgive(self, seconds: float) -> None:
        """Leave out seconds that were not the trial's own."""
        self._forgiven += seconds
        if self.forgiving is not None:
            self.forgiving(seconds)

    def catch_up(self) -> None:
        """Forgive what others have held up since the last time, so that ``seconds`` is right."""
        self.forgive_pending()
        if self.catching_up is not None:
            self.catching_up()

    def note_place(self) -> None:
        """Note that the agent runs in this thread, and on the loop that runs here."""
        self.threads.add(threading.get_ident())
        # A synchronous agent in a thread has no loop.
        with suppress(RuntimeError):
            self.loops.add(id(asyncio.get_running_loop()))

    def note_answer(self) -> None:
        """Note that an agent in a thread has answered; a busy loop may learn of it much later."""
        self._answered_at = self.at

    def forgive_wait_of_answer(self) -> None:
        """Leave out the time that an answer has waited for the loop, if there is an answer."""
        if self._answered_at is not None:
            waited, self._answered_at = self.at - self._answered_at, None
            self.forgive(waited)

    @contextmanager
    def held_up(self, at_most: float) -> Iterator[TimeSpan]:
        """Forgive the time of the block from its beginning on; what was too much is taken back at its end."""
        with self._lock:
            # What came before the block is counted first, else it would be taken for a part of it.
            self.forgive_pending()
            # Forgiven beforehand: else a deadline could cut off the agent in the middle of the block.
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
        """Leave the time of the block out of ``elapsed``: a request waits for its turn, or for a library.

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
        # While any request under way is not excluded, the time counts as elapsed.
        if self._excluding and self._excluding == self._open:
            self._excluded_s += now - self._counted_at
        self._counted_at = now

    def forgive_frozen(self, seconds: float) -> None:
        """Forgive the last seconds, in which no part of the trial could go on."""
        with self._lock:
            frozen = TimeSpan(max(0.0, self.at - seconds), self.at, frozen=True)
            self._spans.append(frozen)
            # Within time that is forgiven already, it is settled when that ends, and counts only if that was
            # own time.
            if not any(span.began <= frozen.began and frozen.ended <= span.ended for span in self._held_up):
                self._settle()

    def forgive_pending(self) -> None:
        """Forgive the time that froze the trial since the last call, before a block is held up or ends.

        So it counts where it was: within time that is forgiven already, or beside that.
        """
        with self._lock:
            if self.pending_freeze is not None and (seconds := self.pending_freeze()) > 0:
                self.forgive_frozen(seconds)

    def charge(self, seconds: float) -> None:
        """Count the last seconds as the trial's own, though they are part of time that is held up."""
        with self._lock:
            self._spans.append(TimeSpan(self.at - seconds, self.at, own=True))
            self._settle()

    def begin_request(self) -> None:
        """Note that a request is under way, whose outcome decides whether its time counts; end it once."""
        with self._lock:
            self._count_excluded()
            self._open += 1

    def end_request(self, began: float, ended: float, *, failed: bool) -> None:
        """Count the time of a request that was answered; forgive time that only failing ones took."""
        with self._lock:
            self._spans.append(TimeSpan(began, ended, own=not failed))
            self._count_excluded()
            self._open -= 1
            self._settle()

    def _settle(self) -> None:
        # Own time counts even where it is held up as well. Frozen time is forgiven even where it is own.
        frozen = [span for span in self._spans if span.frozen]
        own = [span for span in self._spans if span.own]
        forgiven = _covered_seconds(self._spans)
        if own or frozen:
            forgiven = forgiven - _covered_seconds(own + frozen) + _covered_seconds(frozen)
        changed, self._forgiven_of_spans = forgiven - self._forgiven_of_spans, forgiven
        # With no request under way nothing later can overlap these spans.
        if not self._open:
            self._spans, self._forgiven_of_spans = [], 0.0
        self.forgive(changed)

    def step(self) -> None:
        """Begin one more step, which is one request to the model.

        Raises LimitReached when the allowance of steps, seconds, tokens or money is used up.
        """
        allowed = self.allowed
        # First, so that no seconds are counted that others have held up.
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
        """Count the tokens and the money that a reply took."""
        self.tokens += usage.known_tokens
        self.cost_usd += usage.known_cost_usd

    def _within(self, limit: str, allowed: float | None, used: float, elapsed: float = 0.0) -> None:
        if allowed is None or used < allowed:
            return
        # Stays reached, whatever is forgiven after it: requests have been cut by then.
        self.reached = LimitReached(limit, allowed, used, elapsed)
        self._refused += 1
        # An agent that catches every Exception would go on for ever.
        if self._refused > MOST_REFUSED:
            raise LimitIgnored(str(self.reached))
        raise self.reached


def _covered_seconds(spans: Iterable[TimeSpan]) -> float:
    covered, until = 0.0, float("-inf")
    # Time that several spans cover is counted once.
    for span in sorted(spans, key=lambda span: span.began):
        began, ended = span.began if span.began > until else until, span.ended
        if ended > began:
            covered += ended - began
            until = ended
    return covered


class CrossLoopSemaphore:
    """A number of places, taken in the order in which callers wait: ``async with places: ...``.

    An agent in a thread may send requests on a loop of its own. asyncio's semaphore belongs to the first loop
    that waits for it, and is not safe for threads.
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
            # A caller that was cancelled may have got its place already: that goes to the next.
            if given:
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
                # Its loop may be closed: then nobody waits there any more.
                # A future may only be resolved on its own loop, which may run in another thread.
                with suppress(RuntimeError):
                    turn.get_loop().call_soon_threadsafe(_begin, turn)
                    return
            self._free += 1


def _begin(turn: asyncio.Future[None]) -> None:
    # The caller may have been cancelled in the meantime.
    if not turn.done():
        turn.set_result(None)

"""What a trial may use, what it has used, the clock it sees; and how many requests are under way at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn

from pytest_agenteval.records.plan import Allowance
from pytest_agenteval.records.transcript import Usage
from pytest_agenteval.text.errors import LimitIgnored, LimitReached

if TYPE_CHECKING:
    import asyncio

Kind = Literal["charged", "uncharged", "waiting"]

# How many requests of an agent are refused after its limit was reached, before the trial is ended.
MOST_REFUSED = 20


class Clock:
    """The agent's date and time: the task's, else the real one."""

    def __init__(self, fixed: str | None = None) -> None:
        self._fixed = None if fixed is None else datetime.fromisoformat(fixed)

    def now(self) -> datetime:
        """Give the current moment, for the agent."""
        return self._fixed or datetime.now(UTC)


class StoppedTime:
    """For how long a trial could not go on, which is not its own doing: an import, or a busy event loop."""

    def __init__(self, catch_up: Callable[[], None] = lambda: None) -> None:
        self.seconds = 0.0
        # To be called before the seconds are read: it counts what has stopped the trial until now.
        self.catch_up = catch_up
        # The thread in which the agent runs, and the id of the loop there.
        self.places: set[int] = set()


class TimeSpan:
    """A stretch of a trial's time, open until it has ``ended``: charged, or passing uncharged, or waiting.

    As a context manager it ends with the block. Its kind may be changed until it is ended.
    """

    __slots__ = ("began", "ended", "kind", "time")

    def __init__(self, kind: Kind, began: float, time: TrialTime, ended: float | None = None) -> None:
        self.kind, self.began, self.time, self.ended = kind, began, time, ended

    def __enter__(self) -> TimeSpan:
        return self

    def __exit__(self, *raised: object) -> None:
        time = self.time
        with time._lock:
            if self.ended is None:
                self.ended = time._moving
            time._open -= 1
            # With none open nothing later can overlap them.
            if not time._open:
                time._left_out_before = time._left_out()
                time._spans.clear()

    end = __exit__

    def stop(self) -> None:
        """Let the span last no longer; its kind is decided when it is ended."""
        if self.ended is None:
            self.ended = self.time._moving


class TrialTime:
    """The clock of one trial; two figures are read from it, both from ``begin`` on.

    ``elapsed`` is what people see: all time that passes, but for the wait for a slot or for a client library.
    ``charged`` is what a limit counts: it leaves out failed attempts, back-off and ``StoppedTime`` as well.
    Where spans overlap, a moment is left out only if nothing is charged in it.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        # Reentrant: to end a span sums up those before.
        self._lock = threading.RLock()
        self._answered_at: float | None = None
        self.begin(StoppedTime())

    def begin(self, stopped: StoppedTime) -> None:
        """Start the clock: imports and the starting workspace, which came before, do not count."""
        # What has stopped others until now is no part of this trial.
        stopped.catch_up()
        self._began, self._answered_at = self._now(), None
        self.stopped, self._stopped_before = stopped, stopped.seconds
        # Those that may still overlap others; and the seconds, not charged and not elapsed, of all before.
        self._spans: list[TimeSpan] = []
        self._open = 0
        self._left_out_before = (0.0, 0.0)

    @property
    def at(self) -> float:
        """Seconds since the trial began, waiting included."""
        return self._now() - self._began

    @property
    def charged(self) -> float:
        """Seconds that have passed and count against the limit."""
        return self.readings()[1]

    @property
    def elapsed(self) -> float:
        """Seconds that have passed, without those in which the trial only waited for its turn."""
        return self.readings()[0]

    def readings(self) -> tuple[float, float]:
        """Give the elapsed and the charged seconds of one moment."""
        answered_at, (uncharged, unseen) = self._answered_at, self._left_out()
        at = self._now() - self._began if answered_at is None else answered_at
        return at - unseen, at - (self.stopped.seconds - self._stopped_before) - uncharged

    @property
    def is_open(self) -> bool:
        """Whether a span is open, whose time may be charged later."""
        return self._open > 0

    def note_answer(self) -> None:
        """Note that an agent in a thread has answered; a busy loop may learn of it much later."""
        self._answered_at = self.at

    @property
    def _moving(self) -> float:
        # The clock of all spans: it stands still while the trial cannot go on. What has stopped it until now
        # is counted first: a span that ended before that would be left out once more.
        self.stopped.catch_up()
        at = self._now() - self._began if self._answered_at is None else self._answered_at
        return at - (self.stopped.seconds - self._stopped_before)

    def charge(self, seconds: float) -> None:
        """Charge the last seconds, though they are part of an uncharged span that is open."""
        now = self._moving
        with self._lock:
            self._spans.append(TimeSpan("charged", now - seconds, self, now))

    def span(self, kind: Kind) -> TimeSpan:
        """Begin a span: charged, uncharged, or waiting for a request's turn or for a library.

        Back-off is uncharged, and an attempt that may fail.
        """
        span = TimeSpan(kind, self._moving, self)
        with self._lock:
            self._spans.append(span)
            self._open += 1
        return span

    def _left_out(self) -> tuple[float, float]:
        # Seconds that are not charged, and those that are not elapsed either.
        with self._lock:
            if not self._spans:
                return self._left_out_before
            now = self._moving if self._open else 0.0
            spans = sorted(
                [(span.began, now if span.ended is None else span.ended, span.kind) for span in self._spans]
            )
        # How long any span lasts, any that elapses, and any that is charged: each moment is counted once.
        seconds, until = [0.0, 0.0, 0.0], [float("-inf")] * 3
        for began, ended, kind in spans:
            for figure in range(_FIGURES[kind]):
                if ended > until[figure]:
                    seconds[figure] += ended - max(began, until[figure])
                    until[figure] = ended
        covered, elapsed, charged = seconds
        uncharged_before, unseen_before = self._left_out_before
        return uncharged_before + covered - charged, unseen_before + covered - elapsed


# Of the figures covered, elapsed and charged, how many a span counts in.
_FIGURES: Mapping[Kind, int] = {"waiting": 1, "uncharged": 2, "charged": 3}


class Budget:
    """What a trial has used of its limits so far."""

    def __init__(self, allowed: Allowance, now: Callable[[], float] = time.monotonic) -> None:
        self.allowed = allowed
        self.time = TrialTime(now)
        self._lock = threading.Lock()
        self.steps = 0
        self.tokens = 0
        self.cost_usd = 0.0
        self.reached: LimitReached | None = None
        self._refused = 0

    @property
    def at(self) -> float:
        """Seconds since the trial began, waiting included."""
        return self.time.at

    @property
    def seconds(self) -> float:
        """Seconds that count against the limit: without waiting, back-off and failed attempts."""
        return self.time.charged

    @property
    def elapsed(self) -> float:
        """Seconds that have passed, without those in which the trial only waited for its turn."""
        return self.time.elapsed

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the trial's limit leaves, or None where there is no limit."""
        return None if self.allowed.seconds is None else self.allowed.seconds - self.seconds

    def step(self) -> None:
        """Begin one more step, which is one request to the model.

        Raises LimitReached when the allowance of steps, seconds, tokens or money is used up.
        """
        allowed = self.allowed
        # First, so that no seconds are counted in which it could not go on.
        self.time.stopped.catch_up()
        elapsed, charged = self.time.readings()
        for limit, most, used in (
            ("steps", allowed.steps, self.steps),
            ("tokens", allowed.tokens, self.tokens),
            ("cost_usd", allowed.cost_usd, self.cost_usd),
            ("seconds", allowed.seconds, charged),
        ):
            if most is not None and used >= most:
                self._refuse(LimitReached(limit, most, used, elapsed if limit == "seconds" else 0.0))
        self.steps += 1

    def undo_step(self) -> None:
        """Take a step back: the request brought no reply, and may be made again."""
        with self._lock:
            self.steps -= 1

    def spend(self, usage: Usage) -> None:
        """Count the tokens and the money that a reply took."""
        self.tokens += usage.known_tokens
        self.cost_usd += usage.known_cost_usd

    def _refuse(self, reached: LimitReached) -> NoReturn:
        # Stays reached, whatever is forgiven after it: requests have been cut by then.
        self.reached = reached
        self._refused += 1
        # An agent that catches every Exception would go on for ever.
        if self._refused > MOST_REFUSED:
            raise LimitIgnored(str(reached))
        raise reached


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
        # Imported by a trial and by nobody who only reads runs.
        from asyncio import get_running_loop

        loop = get_running_loop()
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

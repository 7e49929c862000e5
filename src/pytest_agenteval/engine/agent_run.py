"""The agent's part of a trial: the user's turns, its limits, its answer, from the loop or from a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.cassettes.http.patches import own_requests
from pytest_agenteval.cassettes.http.scope import NotRecorded, Scope, current
from pytest_agenteval.engine.agent_loops import AgentThread, LoopKind
from pytest_agenteval.engine.answer import as_answer
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.plan import Plan
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.text.errors import LimitIgnored, LimitReached
from pytest_agenteval.tools.toolbox import ToolBox

if TYPE_CHECKING:
    from pytest_agenteval.cassettes.interaction import Request, Response
    from pytest_agenteval.cassettes.tape import Tape
    from pytest_agenteval.chat.model_traffic import ModelTraffic
    from pytest_agenteval.tools.tape import ToolTape


async def run_within_limits(
    run: Callable[..., Any], kind: LoopKind, task_input: Mapping[str, Any], ctx: AgentContext
) -> tuple[Answer, str]:
    """Run the agent until it answers or one of the trial's own limits runs out; give that limit's name too.

    What an agent does when its limit is reached, be it to go on or to raise something else, makes no
    difference to how the trial ends. The answer of one that returned none is what it has given so far. What a
    model said that the agent asked by itself is no answer.
    """
    limits, answer, scope = ctx.limits, None, current()
    course = _course_of(run, kind, task_input, ctx)
    refusals: list[asyncio.Task[None]] = []
    timeout = asyncio.timeout(None)
    deadline = _Deadline(timeout, limits)

    def is_refused() -> bool:
        return ctx.transcript.broken is not None or bool(scope and scope.missed)

    try:
        async with timeout:
            if kind != "trials":
                ends = partial(_end_after_refusal, lambda: limits.reached is not None or is_refused())
                refusals.append(asyncio.create_task(ends(deadline)))
            limits.forgiving = _deadline_extender(deadline, 0.0 if kind == "trials" else _LATE_S)
            answer = as_answer(await course.answer(), ctx.transcript)
    except (Exception, LimitIgnored, BaseExceptionGroup):  # a group is what a group of tasks makes of either
        if limits.reached is None and not timeout.expired():
            raise
    finally:
        limits.forgiving = None
        deadline.close()
        for each in refusals:
            each.cancel()
        await course.end()
        limits.forgive_wait_of_answer()
        limits.catch_up()
    reached = limits.reached
    left = limits.seconds_left  # below 0 where the last reply came late, and nothing was waited for after it
    if reached is None and not is_refused() and (timeout.expired() or (left is not None and left < 0)):
        reached = LimitReached("seconds", limits.allowed.seconds or 0.0, limits.seconds, limits.elapsed)
    if reached is not None:
        ctx.transcript.event("limit", str(reached))
    answer = Answer(ctx.transcript.answer_so_far) if answer is None else answer
    return answer, reached.limit if reached else ""


_GRACE_S = 5.0
"""So long a user's agent may go on that was refused something: how its trial ends is decided."""

_LOOK_AGAIN_S = 0.25


class _Deadline:
    """When an agent's seconds are over; before it strikes, what others have held up is forgiven."""

    def __init__(self, timeout: asyncio.Timeout, limits: Budget) -> None:
        self._timeout, self._limits = timeout, limits
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._when: float | None = None
        if limits.seconds_left is not None:
            self.reschedule(self._loop.time() + limits.seconds_left)

    def when(self) -> float | None:
        """Give the moment by the loop's clock; None where there is none."""
        return self._when

    def expired(self) -> bool:
        """Whether it has struck."""
        return self._timeout.expired()

    def reschedule(self, when: float) -> None:
        """Have it strike at another moment."""
        self._when = when
        # A timer that goes off too soon is set anew then: most are put off for a request and brought back.
        if self._handle is None or when < self._handle.when():
            self.close()
            self._handle = self._loop.call_at(when, self._strike)

    def close(self) -> None:
        """Strike no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _strike(self) -> None:
        when, handle, self._handle = self._when, self._handle, None
        if when is None or handle is None:
            return
        if handle.when() < when:
            self.reschedule(when)
            return
        self._limits.catch_up()  # which may put it off
        if self._when == when:
            self._timeout.reschedule(self._loop.time())


async def _end_after_refusal(is_decided: Callable[[], bool], deadline: _Deadline) -> None:
    """Bring the deadline nearer once the verdict stands.

    What refuses is no Exception, lest clients try again. It ends the task that it is raised in, and who waits
    for that task's word, as who reads a stream that is fed from the background, waits for ever.
    """
    while not is_decided():
        await asyncio.sleep(_LOOK_AGAIN_S)
    when, soon = deadline.when(), asyncio.get_running_loop().time() + _GRACE_S
    if not deadline.expired() and (when is None or when > soon):
        deadline.reschedule(soon)


class _OnLoopOfTrials:
    """One run of an agent of ours, on the loop that it is waited for on."""

    def __init__(self, act: Callable[[], Awaitable[Any]]) -> None:
        self._act = act

    async def answer(self) -> Any:
        """Give what the agent answers, or raise what it raises."""
        return await self._act()

    async def end(self) -> None:
        """Do nothing: it has ended."""


def _course_of(
    run: Callable[..., Any], kind: LoopKind, task_input: Mapping[str, Any], ctx: AgentContext
) -> AgentThread | _OnLoopOfTrials:
    act = partial(run, task_input, ctx)
    return _OnLoopOfTrials(act) if kind == "trials" else AgentThread(act, ctx.limits, kind)


_LATE_S = 1.0
"""So long an agent in a thread goes on after a charge took all its time: it may be about to answer."""


def _deadline_extender(deadline: _Deadline, late_s: float) -> Callable[[float], None]:
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def postpone(seconds: float) -> None:
        when = deadline.when()
        if when is not None and not deadline.expired():
            with suppress(RuntimeError):  # nothing is waited for any more
                deadline.reschedule(max(when + seconds, min(when, loop.time() + late_s)))

    def forgive(seconds: float) -> None:
        if threading.get_ident() == thread:
            postpone(seconds)
        else:  # an agent in a thread asks on a loop of its own
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(postpone, seconds)

    return forgive


_CUT_RESPONSE = "cut_response"
_CUT = "the agent closed or gave up the response before its end; it is not recorded"


class OwnRequests:
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
            from pytest_agenteval.tools.tape import ToolTape

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

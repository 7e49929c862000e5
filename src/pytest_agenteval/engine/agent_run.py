"""How an agent is run in a trial: on which loop or thread, within which limits, and what it returns.

Users' agents run in a thread for each trial, and their async code on a loop of its own there, so that no
trial's computing or blocking lets connections of another time out. Agents that hold connections, locks or
queues for all trials need one loop for all of them, and may share one. Requests that they send by themselves
are replayed, recorded or refused.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from typing import Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.cassettes.http.patch_system import without_socket_guard
from pytest_agenteval.cassettes.http.scope import Scope, current, share_pools, untaped
from pytest_agenteval.chat.chat import Chat, ChatMessage, Reply
from pytest_agenteval.engine.worker_context import LoopKind
from pytest_agenteval.processes.threads import (
    DaemonThreads,
    acceptable_exception,
    close_at_end,
    on_loop,
    start_in_daemon_thread,
)
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.record import NOTHING
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import NO_ANSWER
from pytest_agenteval.text.errors import (
    LimitIgnored,
    LimitReached,
    NotInstalled,
    TrialBroken,
    exception_text,
    with_causes,
)


@contextmanager
def recording_spans(scope: Scope, recorder: Recorder, *, set_up: bool) -> Iterator[None]:
    """Add the spans that begin inside to the transcript; if model requests were seen, only their times.

    ``set_up`` means that the suite requires OpenTelemetry: raises NotInstalled if it cannot be imported.
    """
    attach: Callable[..., bool] | None = None
    # It costs nothing if the process does not use an OpenTelemetry SDK.
    if set_up or "opentelemetry.sdk.trace" in sys.modules:
        try:
            from pytest_agenteval.engine.otel_processor import PROCESSOR, attach
        # What the process has loaded may not be the SDK that we know.
        except ImportError as missing:
            if set_up:
                how = "pip install 'pytest-agenteval[otel]'"
                raise NotInstalled(f"otel: true needs OpenTelemetry ({missing}): {how}") from None
    if attach is None or not attach(set_up=set_up):
        yield
        return
    began_ns = time.time_ns() - round(recorder.at() * 10**9)
    PROCESSOR.watch(scope)
    try:
        yield
    finally:
        if spans := PROCESSOR.pop_spans(scope):
            from pytest_agenteval.cassettes.transcripts.span_reading import read_spans
            from pytest_agenteval.chat.model_prices import with_prices

            try:
                recorder.add_returned(with_prices(read_spans(spans, began_ns), recorder.prices))
            # The attributes are set by code of others: one that cannot be read is no reason to break a trial.
            except Exception as raised:
                text = f"{len(spans)} spans could not be read: {type(raised).__name__}: {raised}"
                recorder.event("unread_spans", text)


# Seconds that a trial waits, after cancelling it, for what its agent has left running.
CLOSING_S = 2.0

_SETTING = (
    "an object that the agent shares between trials (a client, a session, a lock) belongs to the event "
    "loop of another trial. Create it in the agent's run, or let all trials share one loop: "
    '`agent: {call: ..., loop: shared}` in the suite, `loop = "shared"` in an agent\'s class'
)
# Messages of asyncio, and of libraries on it, when something is used on another loop than its own.
_OF_OTHER_LOOPS = (
    "Event loop is closed",
    "attached to a different loop",
    "is bound to a different event loop",
    "Timeout context manager should be used inside a task",
)


class LoopMixup(RuntimeError):
    """An agent used something on one loop that belongs to another; the text says what to do about it."""


class AgentThread:
    """One run of an agent in a thread; an awaitable that it returns is awaited there, or on the shared loop.

    ``limits`` note where it runs, and when it has answered or was stopped.
    """

    def __init__(self, act: Callable[[], Any], limits: Budget, kind: LoopKind) -> None:
        self._act, self._limits, self._shared = act, limits, kind == "shared"
        self._trials = asyncio.get_running_loop()
        self._answer: asyncio.Future[Any] = self._trials.create_future()
        self._task: asyncio.Task[Any] | None = None
        self._stopped = False
        self._stopping = threading.Lock()
        self._ended = start_in_daemon_thread(self._work)

    async def answer(self) -> Any:
        """Return what the agent returns, or raise what it raises; LoopMixup if it mixed up loops."""
        try:
            # Shielded: otherwise a timeout would cancel the future, and ``end`` would take the agent for
            # finished.
            return await asyncio.shield(self._answer)
        except Exception as raised:
            texts = map(exception_text, with_causes(raised))
            if any(words in text for text in texts for words in _OF_OTHER_LOOPS):
                raise LoopMixup(f"{type(raised).__name__}: {exception_text(raised)}: {_SETTING}") from raised
            raise

    async def end(self) -> None:
        """Stop what still runs, and wait a while for it; a function that only computes is left behind."""
        if not self._answer.done():
            self._answer.cancel()
            with self._stopping:
                self._stopped = True
                task = self._task
            if task is not None:
                self._limits.time.note_answer()
                # It may have ended by itself meanwhile, and its loop with it.
                with suppress(RuntimeError):
                    task.get_loop().call_soon_threadsafe(task.cancel)
        if self._task is not None:
            await asyncio.wait({self._ended}, timeout=CLOSING_S)

    def _work(self) -> None:
        # The answer is passed on first: what the agent has left on its loop may take long to end.
        self._limits.time.stopped.places.add(threading.get_ident())
        runner = asyncio.Runner(loop_factory=_new_loop)
        outcome: Any = None
        raised: BaseException | None = None
        made: tuple[Any, ...] = ()
        try:
            outcome = self._act()
            if inspect.isawaitable(outcome):
                made = (outcome, self._awaited(outcome))
                if self._shared:
                    outcome = asyncio.run_coroutine_threadsafe(made[1], _SharedLoop.get()).result()
                else:
                    outcome = runner.run(made[1])
        # Even SystemExit: an agent must not end the run.
        except BaseException as anything:
            outcome, raised = None, anything
        if not self._stopped:
            self._limits.time.note_answer()
        # If the loop is closed, nobody waits any more.
        with suppress(RuntimeError):
            self._trials.call_soon_threadsafe(self._settle, outcome, raised)
        # The answer is known: an error of what was left behind does not change it.
        with suppress(BaseException):
            runner.close()
        # The end of the run interrupts threads anywhere: Python would warn of what has not started by then.
        for each in made:
            if inspect.iscoroutine(each) and inspect.getcoroutinestate(each) == inspect.CORO_CREATED:
                each.close()

    async def _awaited(self, result: Awaitable[Any]) -> Any:
        self._limits.time.stopped.places.add(threading.get_ident())
        self._limits.time.stopped.places.add(id(asyncio.get_running_loop()))
        with self._stopping:
            self._task = asyncio.current_task()
            if self._stopped and self._task is not None:
                self._task.cancel()
        return await result

    def _settle(self, outcome: Any, raised: BaseException | None) -> None:
        if self._answer.done():
            return
        if raised is None:
            self._answer.set_result(outcome)
        else:
            self._answer.set_exception(acceptable_exception(raised))


def _new_loop() -> asyncio.AbstractEventLoop:
    # The loop's own socket pair must not be refused by pytest-socket. Its threads are daemons: they hold up
    # neither its end nor that of the process.
    with without_socket_guard():
        loop = asyncio.new_event_loop()
    loop.set_default_executor(DaemonThreads(loop))
    return loop


class _SharedLoop:
    """The one loop of all agents that share it, in a thread of its own, until the last trial has ended."""

    _lock = threading.Lock()
    _loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def get(cls) -> asyncio.AbstractEventLoop:
        with cls._lock:
            if cls._loop is None:
                cls._loop = loop = _new_loop()
                share_pools(loop)
                # The thread works for all trials, not for the one that starts it.
                with untaped():
                    threading.Thread(
                        target=cls._serve, args=(loop,), name="agenteval-shared", daemon=True
                    ).start()
                close_at_end(cls.close)
            return cls._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        stopped = False
        while not stopped:
            # SystemExit in a task ends that task, but must not end those of other trials.
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()
                stopped = True
        loop.close()

    @classmethod
    async def close(cls) -> None:
        with cls._lock:
            loop, cls._loop = cls._loop, None
        if loop is not None:
            ending = asyncio.run_coroutine_threadsafe(_end_tasks(), loop)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(ending), CLOSING_S)
            loop.call_soon_threadsafe(loop.stop)


async def _end_tasks() -> None:
    loop = asyncio.get_running_loop()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


class ChatOfTrials:
    """A chat that can be called on any loop; it runs on the loop of all trials, where its connections are."""

    def __init__(self, chat: Chat) -> None:
        self._chat, self._loop = chat, asyncio.get_running_loop()

    async def ask(self, messages: Sequence[ChatMessage], **ask: Any) -> Reply:
        return await on_loop(self._loop, self._chat.ask(messages, **ask))


_MOST_KEYS = 8
_WHAT_TO_RETURN = "expected a text, a map with `answer`, or pytest_agenteval.Answer(text, state)"

# The keys of a map that counts as an answer: it has at least one of the first three, and no other key.
MAP_KEYS = ("answer", "state", "messages", "usage")


class InvalidAnswer(TrialBroken):
    """An agent returned something that is not an answer."""

    cause = "answer"


def as_answer(value: Any, transcript: Recorder) -> Answer:
    """Return a value as an answer; raises InvalidAnswer for one that is not.

    Answers are texts, ``Answer``s, and maps like ``{"answer", "state", "messages", "usage"}``. Messages, and
    the ``transcript`` of an ``Answer``, are added to the trial's transcript; raises UnreadableTranscript if
    they cannot be.
    """
    key, usage = "transcript", None
    if isinstance(value, str):
        return Answer(value)
    # An agent may do all its work in the workspace and return nothing; the transcript notes it.
    if value is None:
        transcript.event(NO_ANSWER, f"the agent returned None: graded as an empty answer; {_WHAT_TO_RETURN}")
        return Answer()
    if isinstance(value, Mapping) and not {*value}.isdisjoint(MAP_KEYS[:3]):
        if any(key not in MAP_KEYS for key in value):
            raise InvalidAnswer(
                f"the agent returned {_type_in_words(value)}; expected no other keys than "
                f"{', '.join(MAP_KEYS)}: put anything else for graders into state"
            )
        key, usage, text = "messages", value.get("usage"), value.get("answer")
        value = Answer("" if text is None else text, value.get("state"), value.get("messages"))  # type: ignore[arg-type]
    if not isinstance(value, Answer):
        raise InvalidAnswer(f"the agent returned {_type_in_words(value)}; {_WHAT_TO_RETURN}")
    state = NOTHING if value.state is None else value.state
    for name, part, is_right, expected in (
        ("text", value.text, isinstance(value.text, str), "a text"),
        ("state", state, isinstance(state, Mapping), "a map"),
    ):
        if not is_right:
            raise InvalidAnswer(
                f"the agent returned an Answer whose {name} is {_type_in_words(part)}; expected {expected}"
            )
    if value.transcript is None:
        return Answer(value.text, state)
    from pytest_agenteval.cassettes.transcripts.reading import read_transcript
    from pytest_agenteval.chat.model_prices import with_prices

    returned = with_prices(read_transcript(value.transcript, (key,), usage=usage), transcript.prices)
    transcript.add_returned(returned)
    # If the answer has no text, the last words of the returned transcript are its text.
    return Answer(value.text or returned.last_words, state)


def as_end_state(value: Any) -> Mapping[str, Any]:
    """Return a value as an end state; raises InvalidAnswer for one that is not."""
    if isinstance(value, Mapping):
        return value
    if inspect.iscoroutine(value):
        # Otherwise Python warns that the coroutine was never awaited.
        value.close()
    raise InvalidAnswer(f"the agent's end_state gave {_type_in_words(value)}; expected a map")


def _type_in_words(value: Any) -> str:
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    if not isinstance(value, dict):
        return f"{article} {name}"
    keys = [str(key) for key in value]
    more = ", …" if len(keys) > _MOST_KEYS else ""
    return f"a {name} (keys: {', '.join(keys[:_MOST_KEYS])}{more})" if keys else f"an empty {name}"


async def run_within_limits(
    run: Callable[..., Any], kind: LoopKind, task_input: Mapping[str, Any], ctx: AgentContext
) -> tuple[Answer, str]:
    """Run the agent until it answers or a limit of the trial is reached; returns that limit's name too."""
    # Whatever an agent does when its limit is reached, such as going on or raising something else, the trial
    # ends at the limit. If it returned nothing, its answer is what it has reported so far; replies of models
    # that it called by itself are not part of it.
    limits, answer, scope = ctx.limits, None, current()
    act = partial(run, task_input, ctx)
    # A built-in agent runs on the loop of all trials, and leaves nothing running once it has answered.
    thread = None if kind == "trials" else AgentThread(act, limits, kind)

    def is_refused() -> bool:
        return ctx.transcript.broken is not None or bool(scope and scope.missed)

    timeout = asyncio.timeout(None)
    is_decided = None if thread is None else lambda: limits.reached is not None or is_refused()
    deadline = _Deadline(timeout, limits, is_decided)
    try:
        async with timeout:
            deadline.look()
            returned = await act() if thread is None else await thread.answer()
            answer = as_answer(returned, ctx.transcript)
    # An exception group is what ``asyncio.TaskGroup`` makes of either of the others.
    except (Exception, LimitIgnored, BaseExceptionGroup):
        if limits.reached is None and not timeout.expired():
            raise
    finally:
        deadline.close()
        if thread is not None:
            await thread.end()
        limits.time.stopped.catch_up()
    reached = limits.reached
    # Below 0 if the last reply came late, and the agent awaited nothing after it.
    left = limits.seconds_left
    if reached is None and not is_refused() and (timeout.expired() or (left is not None and left < 0)):
        allowed = limits.allowed.seconds or 0.0
        # Noted for the requests that end with the agent: they are not failures of the provider.
        reached = limits.reached = LimitReached("seconds", allowed, limits.seconds, limits.elapsed)
    if reached is not None:
        ctx.transcript.event("limit", str(reached))
    answer = Answer(ctx.transcript.answer_so_far) if answer is None else answer
    return answer, reached.limit if reached else ""


# Seconds that a user's agent may go on after a refused request: how its trial ends is already decided.
_GRACE_S = 5.0
# Seconds that an agent in a thread may go on after a late charge used up its time: it may be about to answer.
_LATE_S = 1.0
# Seconds between two looks at an agent whose end is not known beforehand.
_CHECK_S = 0.25


class _Deadline:
    """Ends an agent whose seconds are used up or, in a thread, some time after its ending ``is_decided``."""

    # A refusal is not an Exception, so that clients do not retry. It ends the task in which it is raised.
    # What waits for that task, such as the reader of a stream that is fed from the background, would wait for
    # ever.

    def __init__(
        self, timeout: asyncio.Timeout, limits: Budget, is_decided: Callable[[], bool] | None
    ) -> None:
        self._timeout, self._limits, self._is_decided = timeout, limits, is_decided
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._was_open = False
        self._late = self._graceful = inf

    def look(self) -> None:
        """End the agent, or look again when its seconds are used up if nothing is left out of them."""
        limits, now = self._limits, self._loop.time()
        limits.time.stopped.catch_up()
        left = inf if (seconds_left := limits.seconds_left) is None else seconds_left
        in_thread = self._is_decided is not None
        if self._is_decided is not None and self._is_decided():
            self._graceful = min(self._graceful, now + _GRACE_S)
        if left <= 0 and in_thread and (self._was_open or self._late < inf):
            self._late = min(self._late, now + _LATE_S)
            left = self._late - now
        left = min(left, self._graceful - now)
        if left <= 0:
            self._timeout.reschedule(now)
            return
        # What is open now may be charged when it ends.
        self._was_open = limits.time.is_open
        delay = min(left, _CHECK_S) if in_thread or (self._was_open and left < inf) else left
        if delay < inf:
            self._handle = self._loop.call_later(delay, self.look)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

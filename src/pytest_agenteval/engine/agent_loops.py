"""Where users' agents run: each trial in a thread of its own, what is async there on a loop of its own.

So no trial's computing or blocking lets another's connections time out. Agents that hold connections, locks
or queues for all trials, and so need one loop for all of them, may share one.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from pytest_agenteval.agents.agent import loop_of
from pytest_agenteval.cassettes.http.patch_sockets import without_socket_guard
from pytest_agenteval.cassettes.http.pools_of_loops import share_pools
from pytest_agenteval.cassettes.http.scope import untaped
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, Chat, ChatMessage, ChatSettings, Reply
from pytest_agenteval.processes.closers import close_at_end
from pytest_agenteval.processes.threads import DaemonThreads, acceptable_exception, start_in_daemon_thread
from pytest_agenteval.records.limits import Budget
from pytest_agenteval.records.tool_spec import ToolSpec
from pytest_agenteval.text.errors import exception_text

LoopKind = Literal["trials", "own", "shared"]
"""The loop of all trials, which is for our agents; one for each trial; one for all agents that share it."""

CLOSING_S = 2.0
"""So long a trial waits for what its agent has left running, which was told to end."""

_SETTING = (
    "something that the agent holds for all trials (a client, a session, a lock) belongs to the loop of "
    "another trial. Make it within the agent's run, or let all trials share one loop: "
    '`agent: {call: ..., loop: shared}` in the suite, `loop = "shared"` in an agent\'s class'
)
_OF_OTHER_LOOPS = (
    "Event loop is closed",
    "attached to a different loop",
    "is bound to a different event loop",
    "Timeout context manager should be used inside a task",
)
"""Words of asyncio, and of libraries on it, where something is used on another loop than its own."""


class LoopMixup(RuntimeError):
    """An agent used on one loop what belongs to another, and what to do about it."""


def loop_kind(agent: object, run: Callable[..., Any]) -> LoopKind:
    """Say on which loop an agent runs: without a word ours on that of all trials, others on their own."""
    wanted = loop_of(agent)
    if wanted == "own" or wanted == "shared":
        return wanted
    ours = str(getattr(run, "__module__", "")).startswith("pytest_agenteval.")
    return "trials" if ours and inspect.iscoroutinefunction(run) else "own"


class AgentThread:
    """One run of an agent in a thread; what it returns to be awaited is awaited there, or on the shared loop.

    ``limits`` take note of where it runs, and of when there is an answer, or was an order to stop.
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
        """Give what the agent answers, or raise what it raises; LoopMixup where loops were mixed."""
        try:
            return await asyncio.shield(self._answer)
        except Exception as raised:
            if _mixes_loops(raised):
                raise LoopMixup(f"{type(raised).__name__}: {exception_text(raised)}: {_SETTING}") from raised
            raise

    async def end(self) -> None:
        """Stop what still runs, and wait a while for it; a function that only computes is left behind."""
        if not self._answer.done():
            self._answer.cancel()
            self._stop()
        if self._task is not None:
            await asyncio.wait({self._ended}, timeout=CLOSING_S)

    def _stop(self) -> None:
        with self._stopping:
            self._stopped = True
            task = self._task
        if task is not None:
            self._limits.note_answer()
            with suppress(RuntimeError):  # it has ended by itself meanwhile, and its loop with it
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _work(self) -> None:
        """Run the agent, tell its answer, and only then clear away what it has left on its loop."""
        self._limits.note_place()
        runner = asyncio.Runner(loop_factory=_new_loop)
        try:
            outcome, raised = self._result(runner), None
        except BaseException as anything:  # even SystemExit: an agent must not end the run
            outcome, raised = None, anything
        if not self._stopped:
            self._limits.note_answer()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._trials.call_soon_threadsafe(self._settle, outcome, raised)
        with suppress(BaseException):  # what was left behind is nobody's answer
            runner.close()

    def _result(self, runner: asyncio.Runner) -> Any:
        result = self._act()
        if not inspect.isawaitable(result):
            return result
        if not self._shared:
            return runner.run(self._awaited(result))
        return asyncio.run_coroutine_threadsafe(self._awaited(result), _SharedLoop.get()).result()

    async def _awaited(self, result: Awaitable[Any]) -> Any:
        self._limits.note_place()
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
    """Make a loop whose threads hold up neither its end nor that of the process."""
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
        """Give the loop, which the first who asks has made."""
        with cls._lock:
            if cls._loop is None:
                cls._loop = loop = _new_loop()
                share_pools(loop)
                with untaped():  # it works for all trials
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
            # What raises SystemExit in a task ends that task, and not everyone else's.
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_forever()
                stopped = True
        loop.close()

    @classmethod
    async def close(cls) -> None:
        """End what is left on the loop, and the loop."""
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


def _mixes_loops(raised: BaseException) -> bool:
    """Whether an exception, or what it came from, says that something was used on a loop not its own."""
    return any(words in exception_text(part) for part in _with_causes(raised) for words in _OF_OTHER_LOOPS)


def _with_causes(raised: BaseException) -> Iterator[BaseException]:
    part: BaseException | None = raised
    seen: set[int] = set()
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        yield part
        part = part.__cause__ or part.__context__


class ChatOfTrials:
    """A chat that is asked from any loop, and asks on the one of all trials, which has its connections."""

    def __init__(self, chat: Chat) -> None:
        self._chat, self._loop = chat, asyncio.get_running_loop()

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Ask the chat, and wait for it here."""
        asking = self._chat.ask(messages, tools=tools, response_schema=response_schema, settings=settings)
        if asyncio.get_running_loop() is self._loop:
            return await asking
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asking, self._loop))

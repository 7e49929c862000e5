"""An agent acts: its user's turns, its own limits, and its answer, from the loop or from a thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.agents.conversation import is_users, words_of
from pytest_agenteval.engine.answers import answer_of
from pytest_agenteval.errors import LimitReached
from pytest_agenteval.limits import LimitIgnored
from pytest_agenteval.records.evidence import Answer
from pytest_agenteval.threads import in_daemon_thread


def scripted_turns(task_input: Mapping[str, Any]) -> Callable[[], Awaitable[str | None]]:
    """Give the task's user messages one by one: those of ``turns``, else ``content``, then None."""
    turns = task_input.get("turns")
    said = [words_of(turn) for turn in turns if is_users(turn)] if turns else [words_of(task_input)]
    coming = iter(said)

    async def next_turn() -> str | None:
        return next(coming, None)

    return next_turn


async def within_limits(
    run: Callable[..., Any], task_input: Mapping[str, Any], ctx: AgentContext
) -> tuple[Answer, str]:
    """Run the agent until it answers or one of the trial's own limits runs out; give that limit's name too.

    What an agent does when its limit is reached, be it to go on or to raise something else, makes no
    difference to how the trial ends.
    """
    limits, answer = ctx.limits, None
    try:
        async with asyncio.timeout(limits.seconds_left) as deadline:
            limits.forgiving = _later(deadline)
            answer = await _run(run, task_input, ctx)
    except (Exception, LimitIgnored):
        if limits.reached is None and not deadline.expired():
            raise
    finally:
        limits.forgiving = None
    reached = limits.reached
    left = limits.seconds_left  # below 0 where the last reply came late, and nothing was waited for after it
    if reached is None and (deadline.expired() or (left is not None and left < 0)):
        reached = LimitReached("seconds", limits.allowed.seconds or 0.0, limits.seconds)
    if reached is not None:
        ctx.transcript.event("limit", str(reached))
    answer = Answer(ctx.transcript.last_words) if answer is None else answer
    return answer, reached.limit if reached else ""


def _later(deadline: asyncio.Timeout) -> Callable[[float], None]:
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def postpone(seconds: float) -> None:
        when = deadline.when()
        if when is not None and not deadline.expired():
            with suppress(RuntimeError):  # nothing is waited for any more
                deadline.reschedule(when + seconds)

    def forgive(seconds: float) -> None:
        if threading.get_ident() == thread:
            postpone(seconds)
        else:  # an agent in a thread asks on a loop of its own
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(postpone, seconds)

    return forgive


async def _run(run: Callable[..., Any], task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
    if inspect.iscoroutinefunction(run):
        answer = await run(task_input, ctx)
    else:
        answer = await _in_thread(run, task_input, ctx)
        answer = await answer if inspect.isawaitable(answer) else answer
    return answer_of(answer, ctx.transcript)


async def _in_thread(run: Callable[..., Any], task_input: Mapping[str, Any], ctx: AgentContext) -> Any:
    """Run an agent in a thread; what its answer then waits for a busy loop is no second of the agent's."""

    def acting() -> Any:
        try:
            return run(task_input, ctx)
        finally:
            ctx.limits.note_answer()

    try:
        return await in_daemon_thread(acting)
    finally:
        ctx.limits.forgive_wait_of_answer()

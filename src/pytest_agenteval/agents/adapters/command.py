"""A program of any language as an agent: it is given the task as JSON, and its requests are the trial's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pytest_agenteval.agents.adapters.command_form import files_digest
from pytest_agenteval.agents.adapters.command_task import TaskLines
from pytest_agenteval.agents.adapters.command_trial import CommandTrial
from pytest_agenteval.agents.agent import Agent, AgentContext
from pytest_agenteval.processes.threads import in_daemon_thread
from pytest_agenteval.records.evidence import Answer


def agent_factory(form: Mapping[str, Any]) -> Callable[..., Agent]:
    """Give what makes the agent of a suite's ``agent: {command: …}``; any setting goes to the program."""
    return _CommandFactory(form)


class _CommandFactory:
    """Makes agents of one form; which of its prompts a program reads, nobody can tell beforehand."""

    reads_any_prompt = True

    def __init__(self, form: Mapping[str, Any]) -> None:
        self._form = form

    def __call__(self, **settings: Any) -> Agent:
        """Make the agent."""
        return CommandAgent(self._form, **settings)


class CommandAgent:
    """An agent that is a program: each trial starts it anew, in the trial's workspace.

    ``form`` is what suite.yaml says of it, with the suite's ``folder``, ``env``, ``env_pass`` and ``proxy``.
    ``implementation`` is that too: what the user wrote.
    """

    def __init__(self, form: Mapping[str, Any], /, **settings: Any) -> None:
        self.implementation = form
        self._form, self._settings = form, settings

    def files_digest(self) -> str:
        """Give a digest of the files beside suite.yaml that the command names; empty where there is none."""
        return files_digest(self._form)

    @staticmethod
    def handed_prompts(names: Collection[str]) -> Collection[str]:
        """Name the prompts that the program is given as files, whether it reads them or not: all."""
        return names

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Have the program do the task; whatever becomes of it, nothing that it started goes on."""
        news: asyncio.Queue[str] = asyncio.Queue()
        trial = CommandTrial(self._form, ctx, partial(_tell, asyncio.get_running_loop(), news))
        try:
            await in_daemon_thread(trial.make_folders)
            once = self._form.get("output") == "text"
            lines = TaskLines(task_input, self._settings, ctx, answers_once=once)
            task = await lines.first()
            trial.start(task)
            await _converse(trial, task, lines, news)
        finally:
            began = ctx.limits.at
            # Whoever cancels this once more leaves it to the thread.
            await asyncio.shield(asyncio.ensure_future(in_daemon_thread(trial.end)))
            ctx.limits.forgive(ctx.limits.at - began)
        return trial.answer(lines.user_messages)


def _tell(loop: asyncio.AbstractEventLoop, news: asyncio.Queue[str], what: str) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(news.put_nowait, what)


async def _converse(trial: CommandTrial, task: str, lines: TaskLines, news: asyncio.Queue[str]) -> None:
    """Say turn after turn, until the program ends."""
    work = [asyncio.ensure_future(in_daemon_thread(trial.wait))]
    # Not waited for: a program need not read what it is told.
    work.append(asyncio.ensure_future(in_daemon_thread(trial.write, task, not lines.goes_on)))
    try:
        while await news.get() == "answer":
            if lines.goes_on:
                line = await lines.next()
                work.append(asyncio.ensure_future(in_daemon_thread(trial.write, line, line is None)))
    finally:
        for each in work:
            each.cancel()

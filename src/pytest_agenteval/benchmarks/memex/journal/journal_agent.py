"""What both agents of the journal have in common: an entry, attempts at it, a reminder of what is missing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_agenteval import AgentContext, Answer, StopCondition, Tool, converse, run_until_complete
from pytest_agenteval.benchmarks.memex.journal.entries import format_moment, input_problems, prepared


@dataclass(frozen=True, slots=True)
class JournalAgent(ABC):
    """Works on one journal entry until its end state is complete, or there are no more ``retries``.

    An attempt ends when ``stop_condition`` says so, when the model has no more calls, or after ``most_asks``
    replies. Its prompts are ``system``, ``entry`` and ``unfinished``.
    """

    user_language: str = "English"
    most_asks: int = 20
    retries: int = 3

    input_problems = staticmethod(input_problems)
    prepared = staticmethod(prepared)

    async def run(self, task_input: Mapping[str, Any], ctx: AgentContext) -> Answer:
        """Work on the entry; the answer is what was said last, with the end state."""
        ctx.tools.offer(*self.make_tools(ctx))
        messages = self._opening(task_input, ctx)

        def remind(state: Mapping[str, Any]) -> None:
            fact = task_input["fact_id"]
            text = ctx.prompts.render("unfinished", fact_id=fact, **self.reminder_values(state))
            # To the same conversation: the next attempt knows what the last one did.
            messages.append({"role": "user", "content": text})

        return await run_until_complete(
            partial(self._attempt, ctx, messages),
            partial(self.end_state, task_input, ctx),
            remind,
            self.retries,
        )

    @abstractmethod
    def end_state(self, task_input: Mapping[str, Any], ctx: AgentContext) -> dict[str, Any]:
        """Tell how far the work has come; also true after a crash."""

    @abstractmethod
    def make_tools(self, ctx: AgentContext) -> Sequence[Tool]:
        """Make the tools of one trial."""

    @abstractmethod
    def stop_condition(self) -> StopCondition:
        """Watch one attempt for its end."""

    @abstractmethod
    def system_prompt(self, texts: tuple[tuple[str, str], ...]) -> str:
        """Write the system prompt; ``texts`` are the prompts' templates by name."""

    @abstractmethod
    def entry_values(self, ctx: AgentContext) -> Mapping[str, Any]:
        """Give what the prompt ``entry`` says beside the entry itself."""

    @abstractmethod
    def reminder_values(self, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give what the prompt ``unfinished`` says of an incomplete end state."""

    def _opening(self, task_input: Mapping[str, Any], ctx: AgentContext) -> list[dict[str, Any]]:
        entry = ctx.prompts.render(
            "entry",
            language=self.user_language,
            fact_id=task_input["fact_id"],
            published=format_moment(ctx.clock.now()),
            content=task_input["content"],
            **self.entry_values(ctx),
        )
        ctx.prompts.record_read("system")
        system = self.system_prompt(tuple(sorted(ctx.prompts.texts.items())))
        return [{"role": "system", "content": system}, {"role": "user", "content": entry}]

    async def _attempt(self, ctx: AgentContext, messages: list[dict[str, Any]]) -> str:
        return await converse(ctx, messages, finished=self.stop_condition(), most_asks=self.most_asks)

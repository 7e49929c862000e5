"""What a program that is an agent reads: the task, and what the user says, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_agenteval.agents.adapters.model_upstreams import bare_name
from pytest_agenteval.agents.agent import AgentContext
from pytest_agenteval.agents.conversation import is_user_turn, last_user_turn, turn_text
from pytest_agenteval.text.errors import TrialBroken
from pytest_agenteval.text.redaction import KNOWN_SECRETS

VERSION = 1
"""The form of the lines."""


class OneAnswerOnly(TrialBroken):
    """A conversation that is to be had with a program whose whole output is its answer."""

    cause = "agent"


class TaskLines:
    """What a program reads: the task as a line of JSON and, in a conversation, a line for each user turn.

    What was said before the first turn that is to be answered stands in that line as ``turns``. A program
    that ``answers_once`` has no events by which its answers could be told apart.
    """

    def __init__(
        self,
        task_input: Mapping[str, Any],
        settings: Mapping[str, Any],
        ctx: AgentContext,
        *,
        answers_once: bool = False,
    ) -> None:
        self._input, self._settings, self._ctx = task_input, settings, ctx
        self._answers_once = answers_once
        self.goes_on = bool(task_input.get("turns")) or getattr(ctx.turns, "several", False)
        self.user_messages: list[str] = []

    async def first(self) -> str:
        """Give the line with the whole task; raises OneAnswerOnly where a program cannot answer it."""
        ctx, task_input = self._ctx, self._input
        if self.goes_on:
            history = list((task_input.get("turns") or ())[: last_user_turn(task_input)])
            for _ in filter(is_user_turn, history):
                await ctx.turns()
            rest = {key: value for key, value in task_input.items() if key != "turns"}
            task_input = {**rest, **({"turns": history} if history else {}), "content": await ctx.turns()}
            if self._answers_once:
                await self._expect_no_more()
        self.user_messages.append(turn_text(task_input))
        return _line(
            {
                "v": VERSION,
                "task": ctx.trial.task,
                "repetition": ctx.trial.repetition,
                **({"turn": 1} if self.goes_on else {}),
                "input": task_input,
                "model": bare_name(ctx.model),
                "settings": self._settings,
                "now": ctx.clock.now().isoformat(),
            }
        )

    async def _expect_no_more(self) -> None:
        is_played = not self._input.get("turns")  # by a model, which would have to be asked
        if is_played or await self._ctx.turns() is not None:
            raise OneAnswerOnly(
                "the task has several user turns, and a command with `output: text` answers once; "
                "with `output: events` it answers each by a line of JSON"
            )
        self.goes_on = False

    async def next(self) -> str | None:
        """Give the line of the next user turn; None where there is no more."""
        text = await self._ctx.turns()
        if text is None:
            self.goes_on = False
            return None
        self.user_messages.append(text)
        return _line({"v": VERSION, "turn": len(self.user_messages), "input": {"content": text}})


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(KNOWN_SECRETS.value(value), ensure_ascii=False)

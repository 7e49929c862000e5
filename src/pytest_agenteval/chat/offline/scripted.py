"""The model that follows a script, for tests of agents and graders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.chat.offline.acting import Actor
from pytest_agenteval.errors import NothingToActOut, ScriptEnded
from pytest_agenteval.records.plan import Model, Plan
from pytest_agenteval.records.tool import ToolSpec


class Scripted:
    """Gives one entry of the script for each ask, after as many seconds as the entry says."""

    def __init__(self, script: Sequence[Mapping[str, Any]], file: str) -> None:
        self._script, self._file = script, file
        self._actor = Actor()
        self._asks = 0

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the next entry; raises ScriptEnded beyond the last, NothingToActOut without a script."""
        entry = self._next()
        seconds = entry.get("seconds") or 0.0
        if seconds > 0:
            await asyncio.sleep(seconds)
        return self._actor.reply(entry)

    def _next(self) -> Mapping[str, Any]:
        if not self._script:
            raise NothingToActOut(f"nothing to act out: {self._file} has no script")
        self._asks += 1
        if self._asks > len(self._script):
            entries = "1 entry" if len(self._script) == 1 else f"{len(self._script)} entries"
            raise ScriptEnded(f"{self._file}: the script has {entries}, and was asked for one more")
        return self._script[self._asks - 1]


def scripted(model: Model, plan: Plan) -> Scripted:
    """Make a trial's chat, which follows the task's script."""
    return Scripted(plan.task.script or (), plan.task.file or plan.task.id)

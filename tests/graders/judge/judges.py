"""Judges for tests: real chats that reply by a list, and rubrics to ask them by."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.graders.judge.rubric import Rubric, read_rubric
from pytest_agenteval.records.plan import Model

Result = TypeVar("Result")

FRONT = """name: tone
version: 3
scale: {low: 0, high: 1}
dimensions:
  warmth: is it warm?
  clarity: is it clear?
combine: mean
shows:
  task: what was asked for
  answer: what was said
output: answer
"""
BODY = "Asked:\n\n{{ task }}\n\nSaid:\n\n{{ answer }}\n"


def rubric_text(front: str = FRONT, body: str = BODY, **changed: str) -> str:
    """Give a rubric's file, with some lines of its front matter replaced by others."""
    for key, line in changed.items():
        lines = [line if old.startswith(f"{key}:") else old for old in front.splitlines()]
        front = "\n".join(lines) + "\n"
    return f"---\n{front}---\n{body}"


def preferred_answer() -> str:
    """Give a rubric that compares candidates, as a file's text."""
    return Path(__file__).with_name("preferred_answer.jinja").read_text(encoding="utf-8")


def rubric(**changed: str) -> Rubric:
    """Give a rubric, with some lines of its front matter replaced by others."""
    return read_rubric(rubric_text(**changed))


@dataclass
class Says:
    """A chat that gives its replies one after another, and remembers what it was asked."""

    replies: Sequence[str | BaseException]
    before: Callable[[], Awaitable[Any]] | None = None
    asked: list[Sequence[ChatMessage]] = field(default_factory=list)
    schemas: list[Mapping[str, Any] | None] = field(default_factory=list)
    settings: list[ChatSettings] = field(default_factory=list)
    finish: str = "stop"

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[Any] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = DEFAULT_SETTINGS,
    ) -> Reply:
        """Give the next reply, or raise it."""
        self.asked.append(messages)
        self.schemas.append(response_schema)
        self.settings.append(settings)
        number = len(self.asked) - 1
        if self.before is not None:
            await self.before()
        reply = self.replies[number]
        if isinstance(reply, BaseException):
            raise reply
        return Reply(reply, finish=self.finish)


@dataclass(frozen=True)
class TestJudge:
    """A judge with a name and a chat."""

    __test__ = False

    model: Model
    chat: Says


def judge(*replies: str | BaseException, name: str = "stern", **more: Any) -> TestJudge:
    """Give a judge that replies so."""
    return TestJudge(Model(name, name), Says(replies, **more))


def run(asked: Coroutine[Any, Any, Result]) -> Result:
    """Wait for what judges are asked."""
    return asyncio.run(asked)

"""Traces and evidence for tests of the Korean metrics, from synthetic cases, from logs, and by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS, GROUPS
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import JudgedMetricGrader, JudgePanel
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    ComputedGrader,
    KoCall,
    KoGrader,
    KoTrace,
    MetricResult,
)
from pytest_agenteval.chat.chat import DEFAULT_SETTINGS, ChatMessage, ChatSettings, Reply
from pytest_agenteval.records.plan import Model
from tests.benchmarks.ko_agentbench.clone import Json

NAMES = {label.removesuffix(" share"): name for group in GROUPS.values() for name, label in group}
"""The registered name of each grader, by the label that the benchmark's reports have for it."""


def grader_class(name: str) -> type[KoGrader]:
    """Give a grader's class by its registered name."""
    module, _, class_name = GRADERS[name].partition(":")
    made: type[KoGrader] = getattr(import_module(f"pytest_agenteval.{module}"), class_name)
    return made


def result_of(grader: KoGrader, trace: KoTrace, judges: Sequence[Any] = ()) -> MetricResult:
    """Work a metric out, with the judges that it may call."""
    if isinstance(grader, ComputedGrader):
        return grader.result(trace)
    assert isinstance(grader, JudgedMetricGrader)
    return asyncio.run(grader.result(trace, JudgePanel(tuple(judges), grader.combine)))


def default(name: str, trace: KoTrace, *judges: Any, **config: Any) -> MetricResult:
    """Work a metric out in mode ``default``."""
    return result_of(grader_class(name)(**config), trace, judges)


def upstream(name: str, trace: KoTrace, *judges: Any, **config: Any) -> MetricResult:
    """Work a metric out in mode ``upstream``."""
    return result_of(grader_class(name)(**config, mode="upstream"), trace, judges)


@dataclass
class Repeats:
    """A chat that gives its replies one after another, the last one again and again, and counts asks."""

    replies: Sequence[str | BaseException]
    asked: list[Sequence[ChatMessage]] = field(default_factory=list)

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
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        if isinstance(reply, BaseException):
            raise reply
        return Reply(reply)

    @property
    def prompt(self) -> str:
        """The last prompt that was given."""
        return str(self.asked[-1][1]["content"])


@dataclass(frozen=True)
class Scripted:
    """A judge with a name and a chat."""

    model: Model
    chat: Repeats


def says(*replies: str | BaseException, name: str = "strict") -> Scripted:
    """Give a judge that replies so."""
    return Scripted(Model(name, name), Repeats(replies))


def says_score(dimension: str, *scores: Any) -> list[Scripted]:
    """Give judges that each reply with one of these scores, in one dimension."""
    return [
        says(json.dumps({dimension: score, "rationale": f"reason {number}"}), name=f"judge-{number}")
        for number, score in enumerate(scores, 1)
    ]


def ko_call(
    tool: str, step: Any = 1, *, ok: bool = True, result: Any = None, seeded: bool = False, **args: Any
) -> KoCall:
    """Give a call of a trace."""
    return KoCall(step, tool, args, ok, None if ok else "boom", result, seeded)


def did(*calls: KoCall, answer: Any = "답입니다", success: bool = True, **more: Any) -> KoTrace:
    """Give a trace of these calls and this answer."""
    return KoTrace(calls, answer, success, **more)


def golden(*tools: str, step: int | None = None) -> list[Json]:
    """Give golden actions that call these tools, a step each."""
    return [
        {"tool": tool, "args": {}, "step": number if step is None else step}
        for number, tool in enumerate(tools, 1)
    ]

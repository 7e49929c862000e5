"""Level 6: was what the conversation held already used, or asked for again?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    Computed,
    Found,
    Metric,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.payloads import valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.same_calls import same_call
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace
from pytest_agenteval.canonical import plain


def repeated(task: KoTask, calls: Sequence[KoCall]) -> int:
    """Count the agent's calls that give what an earlier successful call, also a seeded one, gave already."""
    worked = [call for call in calls if valid(call)]
    asked = [(call.tool, call.args) for call in worked]
    return sum(
        not call.seeded and any(same_call(asked[at], earlier, task) for earlier in asked[:at])
        for at, call in enumerate(worked)
    )


def non_redundant(task: KoTask, trace: KoTrace) -> Found:
    """Give 1 less the repeated calls by the opportunities for reuse, never below 0."""
    chances = task.reuses
    if not chances:
        return not_applicable("the task has nothing to use again")
    again = repeated(task, trace.calls)
    return Found(share(chances - again, chances), f"{again} repeated calls, {chances} chances to do without")


def non_redundant_upstream(task: KoTask, trace: KoTrace) -> Found:
    """Give 1 less the repeats among the agent's own calls by the opportunities; it may be far below 0."""
    worked = [_key(call) for call in trace.own if call.success]
    again, chances = len(worked) - len(set(worked)), task.reuses
    kept = chances - again
    details = {
        "reuse_opportunities": chances,
        "redundant_calls": again,
        "non_redundant_calls": kept,
        "total_calls": len(trace.own),
        "unique_calls": len(set(worked)),
        "redundant_rate": again / chances if chances else 0.0,
        "non_redundant_rate": 1 - again / chances if chances else 1.0,
    }
    score = 1 - again / chances if chances else 1.0
    return Found(score, f"{again} repeated calls, {chances} chances to do without", details)


def _key(call: KoCall) -> tuple[str, str]:
    return call.tool, json.dumps(dict(call.args or {}), sort_keys=True, ensure_ascii=False, default=plain)


def reuse(task: KoTask, trace: KoTrace) -> Found:
    """Give reuse by reuse and repeated calls; without an answer nothing was used again."""
    chances = task.reuses
    if not chances:
        return not_applicable("the task has nothing to use again")
    again = repeated(task, trace.calls)
    used = max(0, chances - again) if trace.answer else 0
    score = share(used, used + again) if used else 0.0
    return Found(score, f"used again {used} times, asked for again {again} times")


@dataclass(frozen=True)
class KoReuseRate(Computed):
    """ReuseRate: how often was something used again, rather than asked for again?"""

    name: ClassVar[str] = "ko_reuse_rate"
    metric: ClassVar[Metric] = Metric("ReuseRate", reuse, None)


@dataclass(frozen=True)
class KoRedundantCalls(Computed):
    """RedundantCallRate: 1 where no call asks for what is known already."""

    name: ClassVar[str] = "ko_redundant_calls"
    metric: ClassVar[Metric] = Metric("RedundantCallRate", non_redundant, non_redundant_upstream)

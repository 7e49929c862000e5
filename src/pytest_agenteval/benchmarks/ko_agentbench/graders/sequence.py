"""Level 3: did the calls follow the golden path, and with how many steps too many?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    CodeMetric,
    ComputedGrader,
    MetricResult,
    UpstreamError,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace


def full_match(task: KoTask, trace: KoTrace) -> MetricResult:
    """Tell whether the calls are the golden path, those of one step in any order."""
    groups = _steps(task.golden_calls)
    if not groups:
        return not_applicable("the task has no golden path")
    called = [call.tool for call in trace.own]
    expected = [tool for group in groups for tool in group]
    if len(called) != len(expected):
        return MetricResult(0.0, f"{len(called)} calls were made; the golden path has {len(expected)}")
    at = 0
    for number, group in enumerate(groups, 1):
        here = called[at : at + len(group)]
        at += len(group)
        if Counter(here) != Counter(group):
            return MetricResult(0.0, f"step {number} called {', '.join(here)}; wanted was {', '.join(group)}")
    return MetricResult(1.0, "the calls are those of the golden path")


def _steps(calls: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Give the tools of each step; a call without a step is one by itself, after those that have one."""
    last = len(calls)
    numbered = [(call.get("step"), place, str(call["tool"])) for place, call in enumerate(calls)]
    ordered = sorted(
        numbered,
        key=lambda entry: (entry[0] is None, entry[0] if entry[0] is not None else entry[1], entry[1]),
    )
    groups = groupby(ordered, key=lambda entry: (entry[0], last if entry[0] is not None else entry[1]))
    return [[tool for _, _, tool in group] for _, group in groups]


def full_match_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Compare the tools place by place, in the order in which they are listed."""
    if isinstance(task.golden_action, Mapping):
        raise UpstreamError("golden_action is a map, and it wants a list")
    expected, called = [action.get("tool") for action in task.golden], [call.tool for call in trace.own]
    if len(expected) != len(called):
        reason = f"{len(called)} calls were made; the golden path has {len(expected)}"
        details = {"golden_steps": len(expected), "actual_steps": len(called), "reason": reason}
        return MetricResult(0.0, reason, details)
    equal = expected == called
    details = {"golden_sequence": expected, "actual_sequence": called, "match": equal}
    return MetricResult(float(equal), "the tools are the same" if equal else "the tools are others", details)


def partial_match(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the golden calls, by weight, whose tool was called."""
    if not task.golden_calls:
        return not_applicable("the task has no golden path")
    result = _matched_weight(task.golden_calls, trace)
    return MetricResult(result.score, result.reason)


def partial_match_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the golden actions, by weight, whose tool was called; 0 without any."""
    if not task.golden:
        return MetricResult(0.0, "the task has no golden path", {})
    return _matched_weight(task.golden, trace)


def _matched_weight(golden: Sequence[Mapping[str, Any]], trace: KoTrace) -> MetricResult:
    # By tool and not by call: one call stands for every golden call of its tool, in both modes.
    called = {call.tool for call in trace.own}
    matched, missing, weight, total = [], [], 0.0, 0.0
    for action in golden:
        tool, action_weight = action.get("tool"), action.get("weight", 1)
        total += action_weight
        if tool in called:
            matched.append(tool)
            weight += action_weight
        else:
            missing.append(tool)
    reason = f"never called: {', '.join(map(str, missing))}" if missing else "every golden tool was called"
    details = {
        "matched_weight": weight,
        "total_weight": total,
        "matched_tools": matched,
        "missing_tools": missing,
    }
    return MetricResult(weight / total if total else 0.0, reason, details)


def step_economy(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the least number of calls that will do, by the number made; 0 where none of those was made."""
    if task.minimum_steps is None and not task.golden_calls:
        return not_applicable("the task says neither minimum_steps nor golden_action")
    least = len(task.golden_calls) if task.minimum_steps is None else task.minimum_steps
    call_count = len(trace.own)
    score = share(least, call_count) if call_count else float(least == 0)
    return MetricResult(score, f"{call_count} calls were made; {least} will do")


def step_economy_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Take the calls too many, by the least number, from 1; too few score 0."""
    least, call_count = task.minimum_steps, len(trace.own)
    if least is None:
        least = len(task.golden) or 1
    reason = f"{call_count} calls were made; {least} will do"
    if least <= 0:
        return MetricResult(0.0, reason, {"reason": reason})
    extra = call_count - least
    details = {
        "minimum_steps": least,
        "actual_steps": call_count,
        "delta_norm": round(extra / least, 4),
        "extra_steps": extra,
    }
    return MetricResult(0.0 if extra < 0 else max(0.0, 1 - extra / least), reason, details)


@dataclass(frozen=True)
class KoFsm(ComputedGrader):
    """FSM: are the calls the golden path, all of it and nothing else?"""

    name: ClassVar[str] = "ko_fsm"
    metric: ClassVar[CodeMetric] = CodeMetric("FSM", full_match, full_match_upstream)


@dataclass(frozen=True)
class KoPsm(ComputedGrader):
    """PSM: which share of the golden path's tools was called?"""

    name: ClassVar[str] = "ko_psm"
    metric: ClassVar[CodeMetric] = CodeMetric("PSM", partial_match, partial_match_upstream)


@dataclass(frozen=True)
class KoDeltaSteps(ComputedGrader):
    """ΔSteps_norm: how near is the number of calls to the least that will do?"""

    name: ClassVar[str] = "ko_delta_steps"
    metric: ClassVar[CodeMetric] = CodeMetric("ΔSteps_norm", step_economy, step_economy_upstream)

"""Level 5: when a tool failed, how soon was another tried, and did that work?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.failures import at_once, first_hit, mended, works_again
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    Computed,
    Found,
    Metric,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.payloads import valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace


def routing(task: KoTask, trace: KoTrace) -> Found:
    """Give 1 / (1 + calls wasted between the first failure and what was done about it).

    That is a call of another tool, or one of the same that worked. Calls of the reply that met the failure
    are not wasted, for its result was not known yet, nor are those of the reply that did it.
    """
    undecided = _without_failure(task, trace)
    if undecided is not None:
        return undecided
    calls, failed = trace.own, first_hit(task, trace.own)
    since = _since(calls, failed)
    coped = (at for at in since if _is_fallback(calls[at], task) or works_again(task, calls, at, failed))
    switch = next(coped, None)
    if switch is None:
        return _gave_up(task)
    known = (calls[failed], calls[switch])
    wasted = [call for call in calls[failed + 1 : switch] if not any(at_once(call, one) for one in known)]
    told = f"{calls[switch].tool} was tried after {len(wasted)} other calls"
    return Found(1 / (1 + len(wasted)), told)


def routing_upstream(task: KoTask, trace: KoTrace) -> Found:
    """Give 1 / (1 + steps between the first failure and the first fallback)."""
    broken, calls = task.injected_tool, trace.own
    if not broken:
        return Found(None, "no failure is injected", {"reason": "no failure is injected"})
    failed = _failure(task, calls)
    if failed is None:
        told = "No tool calls recorded" if not calls else "Injected tool did not fail"
        return Found(0.0, told, {"reason": told, "injected_tool": broken})
    later = range(failed + 1, len(calls))
    switch = next((at for at in later if _taken_for_fallback(calls[at], task)), None)
    if switch is None:
        told = "No fallback attempt after failure"
        step = _steps(calls, failed)[0]
        return Found(0.0, told, {"reason": told, "failure_step": step, "injected_tool": broken})
    step, other = _steps(calls, failed, switch)
    gap = max(0, other - step - 1)
    details = {
        "failure_step": step,
        "fallback_step": other,
        "fallback_tool": calls[switch].tool,
        "step_gap": gap,
        "injected_tool": broken,
        "fallback_candidates": task.fallbacks,
    }
    return Found(1 / (1 + gap), f"{gap} steps lie between failure and fallback", details)


def fallback_success(task: KoTask, trace: KoTrace) -> Found:
    """Give the share of the fallback calls after the failure that worked."""
    if not _others(task):
        return not_applicable("the task names no tool to fall back on")
    undecided = _without_failure(task, trace)
    if undecided is not None:
        return undecided
    calls = trace.own
    later = [calls[at] for at in _since(calls, first_hit(task, calls))]
    tried = [call for call in later if call.tool in _others(task)]
    if not tried and mended(task, trace):
        return not_applicable(f"{task.injected_tool} worked when it was tried again")
    if not tried:
        return _gave_up(task)
    good = sum(map(valid, tried))
    return Found(share(good, len(tried)), f"{good} of {len(tried)} fallback calls worked")


def fallback_success_upstream(task: KoTask, trace: KoTrace) -> Found:
    """Give the share of all fallback calls that are marked as successful; 0 without an injected failure."""
    if not task.injected_tool:
        return Found(0.0, "no failure is injected", {"reason": "No error injection"})
    if not task.fallbacks:
        return Found(None, "the task names no tool to fall back on", {"reason": "No fallback tools"})
    if _failure(task, trace.own) is None:
        return Found(0.0, "the injected tool did not fail", {"reason": "Injected tool did not fail"})
    tried = [call for call in trace.own if call.tool in _others(task)]
    if not tried:
        return Found(0.0, "no fallback was tried", {"reason": "No fallback attempts"})
    good = sum(call.success is True and not call.error for call in tried)
    details = {
        "injected_tool": task.injected_tool,
        "injected_tool_failed": True,
        "fallback_attempts": len(tried),
        "fallback_successes": good,
        "fallback_tools": _others(task),
    }
    return Found(good / len(tried), f"{good} of {len(tried)} fallback calls worked", details)


def _without_failure(task: KoTask, trace: KoTrace) -> Found | None:
    """Give what can be said where the injected failure was not met; None where it was."""
    if not task.injected_tool:
        return not_applicable("the task injects no failure")
    if first_hit(task, trace.own) >= 0:
        return None
    if any(call.tool == task.injected_tool or _is_fallback(call, task) for call in trace.own):
        return not_applicable(f"{task.injected_tool} never failed")
    return Found(0.0, f"neither {task.injected_tool} nor anything in its place was called")


def _gave_up(task: KoTask) -> Found:
    return Found(0.0, f"{task.injected_tool} failed, and nothing else was tried after that")


def _since(calls: Sequence[KoCall], failed: int) -> list[int]:
    """Give the places of the calls that came with the failure, in the same reply, or after it."""
    places = (at for at in range(len(calls)) if at != failed)
    return [at for at in places if at > failed or at_once(calls[at], calls[failed])]


def _failure(task: KoTask, calls: Sequence[KoCall]) -> int | None:
    """Give the place of the first call that the benchmark takes for one that the failure hit."""
    hits = (at for at, call in enumerate(calls) if call.tool == task.injected_tool)
    return next((at for at in hits if calls[at].success is False or calls[at].error), None)


def _others(task: KoTask) -> list[str]:
    """Give the tools to fall back on; the broken one is none, though it be listed."""
    return [tool for tool in task.fallbacks if tool != task.injected_tool]


def _is_fallback(call: KoCall, task: KoTask) -> bool:
    """Whether a tool is one to fall back on: a listed one or, where none is listed, any other."""
    return call.tool in _others(task) if _others(task) else call.tool != task.injected_tool


def _taken_for_fallback(call: KoCall, task: KoTask) -> bool:
    """Whether the benchmark's routing takes a tool for one, the broken one included where it is listed."""
    return call.tool in task.fallbacks if task.fallbacks else call.tool != task.injected_tool


def _steps(calls: Sequence[KoCall], *places: int) -> list[int]:
    """Give the steps of calls as numbers or, where one of them is none, all their places in the list."""
    steps: list[Any] = [calls[place].step for place in places]
    try:
        return [int(step) for step in steps]
    except (TypeError, ValueError):
        return list(places)


@dataclass(frozen=True)
class KoAdaptiveRouting(Computed):
    """AdaptiveRoutingScore: how soon after a failure was another tool tried?"""

    name: ClassVar[str] = "ko_adaptive_routing"
    metric: ClassVar[Metric] = Metric("AdaptiveRoutingScore", routing, routing_upstream)


@dataclass(frozen=True)
class KoFallbackSr(Computed):
    """FallbackSR: which share of the fallback calls worked?"""

    name: ClassVar[str] = "ko_fallback_sr"
    metric: ClassVar[Metric] = Metric("FallbackSR", fallback_success, fallback_success_upstream)

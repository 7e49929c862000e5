"""Level 5: which calls an injected failure hit, how soon was another tool tried, and did that work?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.efficiency import equal_calls
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    CodeMetric,
    ComputedGrader,
    MetricResult,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.tool_results import is_valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace
from pytest_agenteval.text.json_values import json_equal


def first_failure(task: KoTask, calls: Sequence[KoCall]) -> int:
    """Give the place of the first call that the failure hit; -1 for none."""
    return next((at for at in _injected_places(task, calls) if is_failure(task, calls, at)), -1)


def is_failure(task: KoTask, calls: Sequence[KoCall], at: int) -> bool:
    """Whether the failure hit a call of the broken tool.

    An error says so itself. Half a result (``partial``) is hit whatever it holds, a cut one (``malformed``)
    is text, and an old one (``stale``) is what was given for other arguments before.
    """
    call = calls[at]
    if not is_valid(call):
        return True
    kind = (task.error_injection or {}).get("error_type")
    if kind == "malformed":
        return isinstance(call.result, str)
    return kind == "partial" or (kind == "stale" and _is_old(call, calls[:at]))


def is_repaired(task: KoTask, trace: KoTrace) -> bool:
    """Whether the broken tool worked all the same: it never failed, or did when it was tried again."""
    calls = trace.own
    hit = first_failure(task, calls)
    return any(recovers(task, calls, at, hit) for at in range(len(calls)))


def recovers(task: KoTask, calls: Sequence[KoCall], at: int, hit: int) -> bool:
    """Whether a call is one of the broken tool, made in knowledge of the failure, that it did not hit."""
    if calls[at].tool != task.injected_tool or is_failure(task, calls, at):
        return False
    return hit < 0 or (at > hit and not in_same_reply(calls[at], calls[hit]))


def in_same_reply(call: KoCall, other: KoCall) -> bool:
    """Whether two calls were made in one reply: neither knew what came of the other."""
    return call.step is not None and call.step == other.step


def _injected_places(task: KoTask, calls: Sequence[KoCall]) -> Iterator[int]:
    return (at for at, call in enumerate(calls) if call.tool == task.injected_tool)


def _is_old(call: KoCall, earlier: Sequence[KoCall]) -> bool:
    return any(
        previous.tool == call.tool
        and json_equal(previous.result, call.result)
        and not equal_calls((previous.tool, previous.args), (call.tool, call.args))
        for previous in earlier
    )


def routing(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give 1 / (1 + calls wasted between the first failure and what was done about it).

    That is a call of another tool, or one of the same that worked. Calls of the reply that met the failure
    are not wasted, for its result was not known yet, nor are those of the reply that did it.
    """
    undecided = _without_failure(task, trace)
    if undecided is not None:
        return undecided
    calls, failed = trace.own, first_failure(task, trace.own)
    since = _places_since(calls, failed)
    coped = (at for at in since if _is_fallback(calls[at], task) or recovers(task, calls, at, failed))
    switch = next(coped, None)
    if switch is None:
        return _gave_up_result(task)
    failure_and_switch = (calls[failed], calls[switch])
    wasted = [
        call
        for call in calls[failed + 1 : switch]
        if not any(in_same_reply(call, other) for other in failure_and_switch)
    ]
    reason = f"{calls[switch].tool} was tried after {len(wasted)} other calls"
    return MetricResult(1 / (1 + len(wasted)), reason)


def routing_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give 1 / (1 + steps between the first failure and the first fallback)."""
    broken, calls = task.injected_tool, trace.own
    if not broken:
        return MetricResult(None, "no failure is injected", {"reason": "no failure is injected"})
    failed = _upstream_failure(task, calls)
    if failed is None:
        reason = "No tool calls recorded" if not calls else "Injected tool did not fail"
        return MetricResult(0.0, reason, {"reason": reason, "injected_tool": broken})
    later = range(failed + 1, len(calls))
    switch = next((at for at in later if _is_upstream_fallback(calls[at], task)), None)
    if switch is None:
        reason = "No fallback attempt after failure"
        step = _steps(calls, failed)[0]
        return MetricResult(0.0, reason, {"reason": reason, "failure_step": step, "injected_tool": broken})
    step, other = _steps(calls, failed, switch)
    # A step is a reply. Where fallbacks are offered in a second round only, a text lies between the two:
    # whoever sticks to what is offered gets 0.5 at best.
    gap = max(0, other - step - 1)
    details = {
        "failure_step": step,
        "fallback_step": other,
        "fallback_tool": calls[switch].tool,
        "step_gap": gap,
        "injected_tool": broken,
        "fallback_candidates": task.fallbacks,
    }
    return MetricResult(1 / (1 + gap), f"{gap} steps lie between failure and fallback", details)


def fallback_success(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the fallback calls after the failure that worked."""
    if not _fallback_tools(task):
        return not_applicable("the task names no tool to fall back on")
    undecided = _without_failure(task, trace)
    if undecided is not None:
        return undecided
    calls = trace.own
    later = [calls[at] for at in _places_since(calls, first_failure(task, calls))]
    attempts = [call for call in later if call.tool in _fallback_tools(task)]
    if not attempts and is_repaired(task, trace):
        return not_applicable(f"{task.injected_tool} worked when it was tried again")
    if not attempts:
        return _gave_up_result(task)
    good = sum(map(is_valid, attempts))
    return MetricResult(share(good, len(attempts)), f"{good} of {len(attempts)} fallback calls worked")


def fallback_success_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of all fallback calls that are marked as successful; 0 without an injected failure."""
    if not task.injected_tool:
        # Routing is undecided here, this metric 0: so it is in its code.
        return MetricResult(0.0, "no failure is injected", {"reason": "No error injection"})
    if not task.fallbacks:
        return MetricResult(None, "the task names no tool to fall back on", {"reason": "No fallback tools"})
    if _upstream_failure(task, trace.own) is None:
        return MetricResult(0.0, "the injected tool did not fail", {"reason": "Injected tool did not fail"})
    attempts = [call for call in trace.own if call.tool in _fallback_tools(task)]
    if not attempts:
        return MetricResult(0.0, "no fallback was tried", {"reason": "No fallback attempts"})
    good = sum(call.success is True and not call.error for call in attempts)
    details = {
        "injected_tool": task.injected_tool,
        "injected_tool_failed": True,
        "fallback_attempts": len(attempts),
        "fallback_successes": good,
        "fallback_tools": _fallback_tools(task),
    }
    return MetricResult(good / len(attempts), f"{good} of {len(attempts)} fallback calls worked", details)


def _without_failure(task: KoTask, trace: KoTrace) -> MetricResult | None:
    """Give what can be said where the injected failure was not met; None where it was."""
    if not task.injected_tool:
        return not_applicable("the task injects no failure")
    if first_failure(task, trace.own) >= 0:
        return None
    if any(call.tool == task.injected_tool or _is_fallback(call, task) for call in trace.own):
        return not_applicable(f"{task.injected_tool} never failed")
    return MetricResult(0.0, f"neither {task.injected_tool} nor anything in its place was called")


def _gave_up_result(task: KoTask) -> MetricResult:
    return MetricResult(0.0, f"{task.injected_tool} failed, and nothing else was tried after that")


def _places_since(calls: Sequence[KoCall], failed: int) -> list[int]:
    """Give the places of the calls that came with the failure, in the same reply, or after it."""
    places = (at for at in range(len(calls)) if at != failed)
    return [at for at in places if at > failed or in_same_reply(calls[at], calls[failed])]


def _upstream_failure(task: KoTask, calls: Sequence[KoCall]) -> int | None:
    """Give the place of the first call that the benchmark takes for one that the failure hit."""
    hits = (at for at, call in enumerate(calls) if call.tool == task.injected_tool)
    return next((at for at in hits if calls[at].success is False or calls[at].error), None)


def _fallback_tools(task: KoTask) -> list[str]:
    """Give the tools to fall back on; the broken one is none, though it be listed."""
    return [tool for tool in task.fallbacks if tool != task.injected_tool]


def _is_fallback(call: KoCall, task: KoTask) -> bool:
    """Whether a tool is one to fall back on: a listed one or, where none is listed, any other."""
    return call.tool in _fallback_tools(task) if _fallback_tools(task) else call.tool != task.injected_tool


def _is_upstream_fallback(call: KoCall, task: KoTask) -> bool:
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
class KoAdaptiveRouting(ComputedGrader):
    """AdaptiveRoutingScore: how soon after a failure was another tool tried?"""

    name: ClassVar[str] = "ko_adaptive_routing"
    metric: ClassVar[CodeMetric] = CodeMetric("AdaptiveRoutingScore", routing, routing_upstream)


@dataclass(frozen=True)
class KoFallbackSr(ComputedGrader):
    """FallbackSR: which share of the fallback calls worked?"""

    name: ClassVar[str] = "ko_fallback_sr"
    metric: ClassVar[CodeMetric] = CodeMetric("FallbackSR", fallback_success, fallback_success_upstream)

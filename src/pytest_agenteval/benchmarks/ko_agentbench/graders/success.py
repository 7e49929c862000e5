"""SR: did the agent do what it was asked for? Judges tell, unless nothing is there to judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.failures import mended
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    NEAR,
    AskedMetric,
    Asking,
    Opinion,
    Panel,
    majority_upstream,
    opinion,
    without_judge,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import Found
from pytest_agenteval.benchmarks.ko_agentbench.graders.showing import (
    before_the_question,
    calls_alone,
    calls_with_results,
    facts,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace
from pytest_agenteval.graders.judge.rubric import packaged_rubric

ASKS = 3
LEAST_ANSWER = 3
ROBUSTNESS = 5
SCALE, VOTE = "ko_success", "ko_success_vote"


async def success(task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Give what judges say on a scale of 1 to 5; 0 where there is no answer, or no fallback was tried."""
    robustness = _is_five(task.task_level) or _is_five(trace.level) or bool(task.injected_tool)
    if robustness and _no_fallback(task, trace) and not mended(task, trace):
        return Found(0.0, f"none of the tools to fall back on was called: {', '.join(task.fallbacks)}")
    if not trace.answer:
        return Found(0.0, "there is no answer")
    values = {
        "task": trace.question or task.instruction or "",
        "conversation": before_the_question(trace),
        "calls": calls_with_results(trace.own),
        "facts": facts(task, trace),
        "answer": trace.answer,
    }
    return await panel.score(SCALE, values) if panel.can_tell(SCALE, values) else without_judge()


async def success_upstream(task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Ask the first judge three times; what more than half of its votes say, goes."""
    level = trace.level if task.task_level is None else task.task_level
    if _is_five(level) and _no_fallback(task, trace):
        return _failed("no tool to fall back on was called")
    said = "" if trace.final_response is None else str(trace.final_response)
    if len(said.strip()) < LEAST_ANSWER:
        return _failed("the answer is empty or too short")
    if not panel.judges:
        return without_judge()
    values = {
        "task": task.instruction or trace.instruction,
        "calls": calls_alone(trace.own),
        "answer": said,
    }
    rubric = packaged_rubric(VOTE)
    messages = rubric.messages(values)
    return _voted([await opinion(panel.judges[0], rubric, messages) for _ in range(ASKS)])


def _is_five(level: Any) -> bool:
    if isinstance(level, str):
        return level.strip().upper() in ("5", "L5")
    return level == ROBUSTNESS and not isinstance(level, bool)


def _no_fallback(task: KoTask, trace: KoTrace) -> bool:
    called = {call.tool for call in trace.own}
    return bool(task.fallbacks) and called.isdisjoint(task.fallbacks)


def _failed(told: str) -> Found:
    """Give what fails without being judged."""
    details = {
        "success": False,
        "votes": [],
        "vote_count": {"success": 0, "fail": 0},
        "reasons": [told],
        "final_reason": told,
    }
    return Found(0.0, told, details)


def _voted(said: Sequence[Opinion]) -> Found:
    votes = [one.number == 1 for one in said]
    done = majority_upstream(votes)
    told = f"{sum(votes)} of {len(votes)} votes say that it was done"
    details = {
        "success": done,
        "votes": votes,
        "vote_count": {"success": sum(votes), "fail": len(votes) - sum(votes)},
        "reasons": [one.reason for one in said],
        "final_reason": told,
    }
    return Found(float(done), told, details)


async def repeat_share(task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Tell whether this repetition succeeded, which is an SR of 1.

    Each repetition is a trial of its own, and reports put them together. Of those in a log only a flag is
    known, which says nothing of success.
    """
    found = await success(task, trace, panel)
    if found.score is None:
        return found
    done = found.score >= 1 - NEAR
    return Found(float(done), f"{'succeeded' if done else 'did not succeed'}: SR {found.reason}")


async def repeat_share_upstream(task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Give the mean of the technical flag over the repetitions."""
    flags = trace.repetition_results or (trace.success,)
    good = sum(map(bool, flags))
    details = {
        "repetitions": len(flags) if trace.repetitions is None else trace.repetitions,
        "actual_repetitions": len(flags),
        "success_count": good,
    }
    return Found(good / len(flags), f"{good} of {len(flags)} repetitions are marked as successful", details)


@dataclass(frozen=True)
class KoSuccess(Asking):
    """SR: did the agent do what it was asked for?"""

    name: ClassVar[str] = "ko_success"
    threshold: ClassVar[float] = 1.0
    metric: ClassVar[AskedMetric] = AskedMetric(
        "SR", success, success_upstream, {"default": SCALE, "upstream": VOTE}
    )


@dataclass(frozen=True)
class KoRepeatShare(Asking):
    """pass@k share: which share of the repetitions succeeded?"""

    name: ClassVar[str] = "ko_repeat_share"
    metric: ClassVar[AskedMetric] = AskedMetric(
        "pass@k share", repeat_share, repeat_share_upstream, {"default": SCALE}
    )

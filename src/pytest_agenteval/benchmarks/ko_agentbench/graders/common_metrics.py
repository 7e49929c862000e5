"""The metrics that every level has: SR, EPR_CVR, pass@k share and RRR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.efficiency import is_repaired
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetric,
    JudgedMetricGrader,
    JudgePanel,
    ask_upstream,
    before_the_question,
    calls_alone,
    calls_with_results,
    facts,
    majority_upstream,
    no_judge_result,
    own_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    CodeMetric,
    ComputedGrader,
    KoTrace,
    MetricResult,
    is_valid,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.records.evidence import ROUNDING


def valid_calls(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the agent's calls that worked; a result that is an error is a failed call.

    Failures of the tool that the task breaks are left out: they are not the agent's.
    """
    counted = [call for call in trace.own if is_valid(call) or call.tool != task.injected_tool]
    if not counted:
        return not_applicable("no call was made that could have worked")
    good = sum(map(is_valid, counted))
    return MetricResult(share(good, len(counted)), f"{good} of {len(counted)} calls worked")


def valid_calls_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of calls that are marked as successful and have no error; 0 without calls."""
    good, all_of = sum(call.worked for call in trace.own), len(trace.own)
    details = {"total_calls": all_of, "valid_calls": good}
    # Without calls it is 0, so that here an agent that needs no call
    # gets nothing. Errors in the place of a result count as valid.
    return MetricResult(good / all_of if all_of else 0.0, f"{good} of {all_of} calls are valid", details)


def response(task: KoTask, trace: KoTrace) -> MetricResult:
    has_answer = bool(trace.answer)
    return MetricResult(float(has_answer), "there is an answer" if has_answer else "there is no answer")


def response_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the technical flag, for which an empty answer counts as an answer."""
    verb = "is" if trace.success else "is not"
    return MetricResult(float(bool(trace.success)), f"the run {verb} marked as successful")


@dataclass(frozen=True)
class KoValidCalls(ComputedGrader):
    """EPR_CVR: which share of the agent's calls worked?"""

    name: ClassVar[str] = "ko_valid_calls"
    metric: ClassVar[CodeMetric] = CodeMetric("EPR_CVR", valid_calls, valid_calls_upstream)


@dataclass(frozen=True)
class KoResponseRate(ComputedGrader):
    """RRR: was there an answer?"""

    name: ClassVar[str] = "ko_response_rate"
    threshold: ClassVar[float] = 1.0
    metric: ClassVar[CodeMetric] = CodeMetric("RRR", response, response_upstream)


ASKS = 3
SUCCESS_RUBRIC, VOTE_RUBRIC = "ko_success", "ko_success_vote"


async def success(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give the score of judges on a scale of 1 to 5; 0 where there is no answer, or no fallback was tried."""
    # One task of level 5 does not state its level; that something is made to fail says it as well.
    robustness = _is_five(task.task_level) or _is_five(trace.level) or bool(task.injected_tool)
    if robustness and _no_fallback(task, trace) and not is_repaired(task, trace):
        return MetricResult(0.0, f"none of the tools to fall back on was called: {', '.join(task.fallbacks)}")
    if not trace.answer:
        return MetricResult(0.0, "there is no answer")
    values = {
        "task": trace.question or task.instruction or "",
        "conversation": before_the_question(trace),
        "calls": calls_with_results(trace.own),
        "facts": facts(task, trace),
        "answer": trace.answer,
    }
    known = panel.can_tell(SUCCESS_RUBRIC, values)
    return await panel.score(SUCCESS_RUBRIC, values) if known else no_judge_result()


async def success_upstream(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Call the first judge three times; the majority of its votes decides."""
    level = trace.level if task.task_level is None else task.task_level
    # Of a task without a level the log has 0: the benchmark lets it through without a fallback.
    if _is_five(level) and _no_fallback(task, trace):
        return _failure_result("no tool to fall back on was called")
    answer = "" if trace.final_response is None else str(trace.final_response)
    # Counted in characters: of Hangul, one letter has three bytes.
    if len(answer.strip()) < 3:
        return _failure_result("the answer is empty or too short")
    if not panel.judges:
        return no_judge_result()
    values = {
        "task": task.instruction or trace.instruction,
        # No results: the benchmark means to show the golden fields, but they never reach its evaluator.
        "calls": calls_alone(trace.own),
        "answer": answer,
    }
    rubric = own_rubric(VOTE_RUBRIC)
    messages = rubric.messages(values)
    # The README of the benchmark describes a score of 1 to
    # 5; its code takes three yes-or-no votes of one judge.
    replies = [await ask_upstream(panel.judges[0], rubric, messages) for _ in range(ASKS)]
    # A judge that fails has no number, and so counts as a no.
    votes = [reply.number == 1 for reply in replies]
    done = majority_upstream(votes)
    reason = f"{sum(votes)} of {len(votes)} votes say that it was done"
    details = {
        "success": done,
        "votes": votes,
        "vote_count": {"success": sum(votes), "fail": len(votes) - sum(votes)},
        "reasons": [reply.reason for reply in replies],
        "final_reason": reason,
    }
    return MetricResult(float(done), reason, details)


def _is_five(level: Any) -> bool:
    if isinstance(level, str):
        return level.strip().upper() in ("5", "L5")
    return bool(level == 5 and not isinstance(level, bool))


def _no_fallback(task: KoTask, trace: KoTrace) -> bool:
    called = {call.tool for call in trace.own}
    return bool(task.fallbacks) and called.isdisjoint(task.fallbacks)


def _failure_result(reason: str) -> MetricResult:
    """Give the result of a trial that fails without being judged."""
    none = {"success": 0, "fail": 0}
    details = {"success": False, "votes": [], "vote_count": none, "reasons": [reason], "final_reason": reason}
    return MetricResult(0.0, reason, details)


async def repeat_share(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give 1 where this repetition succeeded, which is an SR of 1, else 0.

    Each repetition is a trial of its own, and reports put them together. A log holds only a flag of its
    further repetitions, which says nothing of success.
    """
    judged = await success(task, trace, panel)
    if judged.score is None:
        return judged
    # The mean of several full marks may lie a rounding below 1.
    done = judged.score >= 1 - ROUNDING
    return MetricResult(float(done), f"{'succeeded' if done else 'did not succeed'}: SR {judged.reason}")


async def repeat_share_upstream(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give the mean of the technical flag over the repetitions."""
    flags = trace.repetition_results or (trace.success,)
    good = sum(map(bool, flags))
    details = {
        "repetitions": len(flags) if trace.repetitions is None else trace.repetitions,
        "actual_repetitions": len(flags),
        "success_count": good,
    }
    reason = f"{good} of {len(flags)} repetitions are marked as successful"
    return MetricResult(good / len(flags), reason, details)


@dataclass(frozen=True)
class KoSuccess(JudgedMetricGrader):
    """SR: did the agent do what the task wants?"""

    name: ClassVar[str] = "ko_success"
    threshold: ClassVar[float] = 1.0
    metric: ClassVar[JudgedMetric] = JudgedMetric(
        "SR", success, success_upstream, {"default": SUCCESS_RUBRIC, "upstream": VOTE_RUBRIC}
    )


@dataclass(frozen=True)
class KoRepeatShare(JudgedMetricGrader):
    """pass@k share: which share of the repetitions succeeded?"""

    name: ClassVar[str] = "ko_repeat_share"
    metric: ClassVar[JudgedMetric] = JudgedMetric(
        "pass@k share", repeat_share, repeat_share_upstream, {"default": SUCCESS_RUBRIC}
    )

"""Level 6: was the task done, and with no more calls than it needs?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.judge_prompts import (
    before_the_question,
    calls_alone,
    calls_with_results,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetric,
    JudgedMetricGrader,
    JudgePanel,
    UpstreamVote,
    ask_all_upstream,
    majority_upstream,
    no_judge_result,
    one_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import MetricResult, share
from pytest_agenteval.benchmarks.ko_agentbench.graders.reuse import equal_calls
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask, as_json
from pytest_agenteval.benchmarks.ko_agentbench.graders.tool_results import is_valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace

RUBRIC = "ko_completed"


async def economy(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give 0 where judges say that it was not done, else the calls it needs by the calls there were.

    Calls that were given count on both sides: who uses what they gave needs none.
    """
    if not trace.answer:
        return MetricResult(0.0, "there is no answer")
    if not panel.judges:
        return no_judge_result()
    values = {
        "task": trace.question or task.instruction or "",
        "conversation": before_the_question(trace),
        "calls": calls_with_results(trace.own),
        "answer": trace.answer,
    }
    done = await panel.score(RUBRIC, values)
    if done.score is None:
        return done
    made, needed = len(trace.calls), _needed_calls(task, trace)
    score = (share(needed, made) if made else 1.0) if done.score else 0.0
    told = f"{made} calls were made, {made - len(trace.own)} of them given; {needed} will do"
    return MetricResult(score, f"{told}; done: {done.reason}", more=done.more)


async def economy_upstream(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give 0 where it was not done, also where no call was made, else the least calls by those made."""
    made = len(trace.own)
    needed = (_distinct(task) or 1) if task.minimum_calls is None else task.minimum_calls
    if not panel.judges and made:
        return no_judge_result()
    values = {
        "task": task.instruction or trace.instruction,
        "conversation": "",
        "calls": calls_alone(trace.own),
        "answer": "" if trace.final_response is None else str(trace.final_response),
    }
    said = await ask_all_upstream(panel, RUBRIC, values)
    votes = [one.number == 1 for one in said]
    done = majority_upstream(votes)
    told = f"{sum(votes)} of {len(votes)} judges say that it was done"
    score = min(1.0, needed / made) if done and made else 0.0
    details = {
        "success": done,
        "actual_calls": made,
        "minimum_calls": needed,
        **({"efficiency": score} if done and made else {}),
        "llm_reason": told,
        "vote_details": {"positive": sum(votes), "negative": len(votes) - sum(votes), "total": len(votes)},
        "individual_judges": _vote_details(said),
    }
    return MetricResult(score, f"{made} calls were made; {needed} will do; {told}", details)


def _needed_calls(task: KoTask, trace: KoTrace) -> int:
    """Count the calls that were given, and the golden ones that none of them makes needless."""
    given = [call for call in trace.calls if call.seeded]
    needed, known = len(given), [(call.tool, call.args) for call in given if is_valid(call)]
    for action in task.golden_calls:
        wanted = (str(action["tool"]), action.get("args") or {})
        if not any(equal_calls(wanted, one) for one in known):
            known.append(wanted)
            needed += 1
    return max(needed, task.minimum_calls or 0)


def _distinct(task: KoTask) -> int:
    """Count the different golden calls."""
    return len({(call["tool"], _args_text(call.get("args"))) for call in task.golden_calls})


def _args_text(args: object) -> str:
    return as_json(args or {}, sorted_keys=True)


def _vote_details(said: Sequence[UpstreamVote]) -> list[dict[str, object]]:
    return [
        {"success": one.number == 1, "reason": one.reason, "judge_id": place, "judge_model": one.judge}
        for place, one in enumerate(said, 1)
    ]


@dataclass(frozen=True)
class KoEffScore(JudgedMetricGrader):
    """EffScore: was the task done with no more calls than it needs?"""

    name: ClassVar[str] = "ko_eff_score"
    metric: ClassVar[JudgedMetric] = JudgedMetric("EffScore", economy, economy_upstream, one_rubric(RUBRIC))

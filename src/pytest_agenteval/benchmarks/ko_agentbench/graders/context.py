"""Level 7: does the agent keep what was said earlier, and recall it when it is meant? Judges tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    UPSTREAM_LOWEST,
    JudgedMetric,
    JudgedMetricGrader,
    JudgePanel,
    UpstreamVote,
    ask_all_upstream,
    conversation,
    conversation_upstream,
    mean_upstream,
    no_judge_result,
    one_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import MetricResult, not_applicable
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace

RETENTION, RECALL = "ko_context_retention", "ko_ref_recall"


async def judged_context(rubric: str, task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give what judges say of the last answer, in a conversation that had something before it."""
    if sum(message.role == "user" for message in trace.messages or ()) < 2:
        return not_applicable("nothing was said before the question")
    if not trace.answer:
        return MetricResult(0.0, "there is no answer")
    if not panel.judges:
        return no_judge_result()
    values = {"conversation": conversation(trace.messages), "answer": trace.answer}
    return await panel.score(rubric, values)


async def judged_context_upstream(
    rubric: str, task: KoTask, trace: KoTrace, panel: JudgePanel
) -> MetricResult:
    """Give the rounded mean of what judges say of a conversation; 0 where the log holds none."""
    # Of an empty conversation judges are asked all the same: only a missing one is 0 by itself.
    if trace.messages is None:
        return MetricResult(0.0, "the log holds no conversation", {})
    text, turns_shown = conversation_upstream(trace.messages)
    if not panel.judges:
        return no_judge_result()
    answer = "" if trace.final_response is None else str(trace.final_response)
    judge_votes = await ask_all_upstream(panel, rubric, {"conversation": text, "answer": answer})
    mean, rounded, score = mean_upstream(judge_votes)
    details = {
        "raw_score": rounded,
        "normalized_score": score,
        "average_score": mean,
        "reason": f"the mean of {len(judge_votes)} judges is {mean:.2f}",
        "total_messages": len(trace.messages),
        "evaluated_messages": turns_shown,
        "individual_judges": _vote_details(judge_votes),
    }
    return MetricResult(score, f"the mean of {len(judge_votes)} judges is {mean:.2f} of 5", details)


def _vote_details(judge_votes: Sequence[UpstreamVote]) -> list[dict[str, object]]:
    return [
        {
            "score": UPSTREAM_LOWEST if vote.number is None else vote.number,
            "reason": vote.reason,
            "judge_id": place,
            "judge_model": vote.judge,
        }
        for place, vote in enumerate(judge_votes, 1)
    ]


@dataclass(frozen=True)
class KoContextRetention(JudgedMetricGrader):
    """ContextRetention: does the answer keep what was said earlier?"""

    name: ClassVar[str] = "ko_context_retention"
    metric: ClassVar[JudgedMetric] = JudgedMetric(
        "ContextRetention",
        partial(judged_context, RETENTION),
        partial(judged_context_upstream, RETENTION),
        one_rubric(RETENTION),
    )


@dataclass(frozen=True)
class KoRefRecall(JudgedMetricGrader):
    """RefRecall: does the answer recall rightly what the user points back to?"""

    name: ClassVar[str] = "ko_ref_recall"
    metric: ClassVar[JudgedMetric] = JudgedMetric(
        "RefRecall",
        partial(judged_context, RECALL),
        partial(judged_context_upstream, RECALL),
        one_rubric(RECALL),
    )

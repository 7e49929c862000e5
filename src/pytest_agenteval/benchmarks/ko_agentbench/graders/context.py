"""Level 7: does the agent keep what was said earlier, and recall it when it is meant? Judges tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    UPSTREAM_LOWEST,
    AskedMetric,
    Asking,
    Opinion,
    Panel,
    mean_upstream,
    of_scale,
    opinions,
    without_judge,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import Found, not_applicable
from pytest_agenteval.benchmarks.ko_agentbench.graders.showing import conversation, conversation_upstream
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace

RETENTION, RECALL = "ko_context_retention", "ko_ref_recall"


async def scored(rubric: str, task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Give what judges say of the last answer, in a conversation that had something before it."""
    if sum(message.role == "user" for message in trace.messages or ()) < 2:
        return not_applicable("nothing was said before the question")
    if not trace.answer:
        return Found(0.0, "there is no answer")
    if not panel.judges:
        return without_judge()
    values = {"conversation": conversation(trace.messages), "answer": trace.answer}
    return await panel.score(rubric, values)


async def scored_upstream(rubric: str, task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Give the rounded mean of what judges say of a conversation; 0 where the log holds none."""
    if trace.messages is None:
        return Found(0.0, "the log holds no conversation", {})
    text, shown = conversation_upstream(trace.messages)
    if not panel.judges:
        return without_judge()
    answer = "" if trace.final_response is None else str(trace.final_response)
    said = await opinions(panel, rubric, {"conversation": text, "answer": answer})
    mean, rounded, score = mean_upstream(said)
    details = {
        "raw_score": rounded,
        "normalized_score": score,
        "average_score": mean,
        "reason": f"the mean of {len(said)} judges is {mean:.2f}",
        "total_messages": len(trace.messages),
        "evaluated_messages": shown,
        "individual_judges": _each(said),
    }
    return Found(score, f"the mean of {len(said)} judges is {mean:.2f} of 5", details)


def _each(said: Sequence[Opinion]) -> list[dict[str, object]]:
    return [
        {
            "score": UPSTREAM_LOWEST if one.number is None else one.number,
            "reason": one.reason,
            "judge_id": place,
            "judge_model": one.judge,
        }
        for place, one in enumerate(said, 1)
    ]


@dataclass(frozen=True)
class KoContextRetention(Asking):
    """ContextRetention: does the answer keep what was said earlier?"""

    name: ClassVar[str] = "ko_context_retention"
    metric: ClassVar[AskedMetric] = AskedMetric(
        "ContextRetention",
        partial(scored, RETENTION),
        partial(scored_upstream, RETENTION),
        of_scale(RETENTION),
    )


@dataclass(frozen=True)
class KoRefRecall(Asking):
    """RefRecall: does the answer recall rightly what the user points back to?"""

    name: ClassVar[str] = "ko_ref_recall"
    metric: ClassVar[AskedMetric] = AskedMetric(
        "RefRecall", partial(scored, RECALL), partial(scored_upstream, RECALL), of_scale(RECALL)
    )

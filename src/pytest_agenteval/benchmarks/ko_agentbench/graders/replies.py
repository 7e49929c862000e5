"""Replies of judges that are taken as a given verdict, to play back what was published."""

from __future__ import annotations

from pytest_agenteval.benchmarks.ko_agentbench.graders.arguments import KoArgAcc
from pytest_agenteval.benchmarks.ko_agentbench.graders.context import KoContextRetention, KoRefRecall
from pytest_agenteval.benchmarks.ko_agentbench.graders.efficiency import KoEffScore
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import AskedMetric
from pytest_agenteval.benchmarks.ko_agentbench.graders.success import KoSuccess

JUDGED: dict[str, AskedMetric] = {
    grader.metric.label: grader.metric
    for grader in (KoSuccess, KoArgAcc, KoEffScore, KoContextRetention, KoRefRecall)
}


def verdict_text(metric_label: str, verdict: bool | float, reason: str = "") -> str:
    """Write a judge's reply that mode ``upstream`` takes as exactly this verdict.

    SR and EffScore take a truth value, the others a whole number from 1 to 5; anything else is written all
    the same, and is a failed reply.
    """
    return JUDGED[metric_label].reply(verdict, reason)

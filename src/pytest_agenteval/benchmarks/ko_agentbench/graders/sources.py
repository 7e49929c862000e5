"""Level 4: were all sources asked, and did they give something?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    CodeMetric,
    ComputedGrader,
    MetricResult,
    naive_sum,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.tool_results import has_data, is_meaningful_upstream
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace


def coverage(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the golden tools that gave something."""
    tools = task.golden_tools
    if not tools:
        return not_applicable("the task names no source")
    covered = {call.tool for call in trace.own if call.tool in tools and has_data(call)}
    missing = [tool for tool in tools if tool not in covered]
    reason = f"gave nothing: {', '.join(missing)}" if missing else "every source gave something"
    return MetricResult(share(len(covered), len(tools)), reason)


def coverage_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the golden tools with a successful result of a shape that its code knows."""
    tools = task.golden_tools
    productive = {call.tool for call in trace.own if call.tool in tools and _gave_upstream(call)}
    covered, missing = (
        [tool for tool in tools if tool in productive],
        [tool for tool in tools if tool not in productive],
    )
    details = {
        "required_tools": tools,
        "covered_tools": covered,
        "missing_tools": missing,
        "total_required": len(tools),
        "total_covered": len(covered),
    }
    return MetricResult(
        len(covered) / len(tools) if tools else 1.0, f"{len(covered)} of {len(tools)}", details
    )


def source_validity(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the mean, over the golden tools, of the share of their calls that gave something."""
    tools = task.golden_tools
    if not tools:
        return not_applicable("the task names no source")
    outcomes = {tool: [has_data(call) for call in trace.own if call.tool == tool] for tool in tools}
    mean = naive_sum(share(sum(good), len(good)) for good in outcomes.values() if good) / len(tools)
    counts = ", ".join(f"{tool} {sum(good)} of {len(good)}" for tool, good in outcomes.items())
    return MetricResult(mean, f"calls that gave something: {counts}")


def source_validity_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the mean, over the golden tools, of the share of calls with a result that its code knows."""
    sources = {tool: _source_details(tool, trace) for tool in task.golden_tools}
    mean = naive_sum(source["epr"] for source in sources.values()) / len(sources) if sources else 1.0
    details = {"source_eprs": sources, "average_epr": round(mean, 4), "total_sources": len(sources)}
    for source in sources.values():
        source["epr"] = round(source["epr"], 4)
    return MetricResult(mean, f"the mean of {len(sources)} sources", details)


def _source_details(tool: str, trace: KoTrace) -> dict[str, Any]:
    calls = [call for call in trace.own if call.tool == tool]
    good = sum(map(_gave_upstream, calls))
    if not calls:
        return {"epr": 0.0, "total_calls": 0, "valid_calls": 0, "reason": "the tool was not called"}
    return {"epr": good / len(calls), "total_calls": len(calls), "valid_calls": good}


def _gave_upstream(call: KoCall) -> bool:
    # Calls have lost their errors by here, so that the flag is all that it goes by.
    return bool(call.success) and is_meaningful_upstream(call.result)


@dataclass(frozen=True)
class KoCoverage(ComputedGrader):
    """Coverage: which share of the sources gave something?"""

    name: ClassVar[str] = "ko_coverage"
    metric: ClassVar[CodeMetric] = CodeMetric("Coverage", coverage, coverage_upstream)


@dataclass(frozen=True)
class KoSourceEpr(ComputedGrader):
    """SourceEPR: which share of its calls gave something, over all sources?"""

    name: ClassVar[str] = "ko_source_epr"
    metric: ClassVar[CodeMetric] = CodeMetric("SourceEPR", source_validity, source_validity_upstream)

"""Level 1: do the arguments mean what the golden ones mean? Judges tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.judge_prompts import value_text
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetric,
    JudgedMetricGrader,
    JudgePanel,
    ask_all_upstream,
    mean_upstream,
    no_judge_result,
    one_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import MetricResult, not_applicable
from pytest_agenteval.benchmarks.ko_agentbench.graders.single_tool import with_defaults
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace
from pytest_agenteval.json_values import equal

RUBRIC = "ko_arg_agreement"


async def argument_agreement(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give what judges say of the first call of the golden tool; equal arguments need no judge."""
    tool = task.first.get("tool")
    if not tool:
        return not_applicable("the task names no golden call")
    made = _first_call(tool, trace)
    if made is None:
        return MetricResult(0.0, f"{tool} was never called")
    if not made.readable:
        return MetricResult(0.0, "the arguments are no JSON object")
    given = made.args
    wanted: Mapping[str, Any] = task.first.get("args") or {}
    if equal(with_defaults(wanted, task), with_defaults(given, task)):
        return MetricResult(1.0, "the arguments are equal")
    if not given:
        return MetricResult(0.0, "no arguments were given")
    if not panel.judges:
        return no_judge_result()
    return await panel.score(RUBRIC, _values(task, wanted, given))


async def argument_agreement_upstream(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give the rounded mean of what judges say; 0 where either side has no arguments."""
    tool = task.first.get("tool")
    if not tool:
        return MetricResult(0.0, "the task names no golden call", {})
    made = _first_call(tool, trace)
    wanted, given = task.first.get("args") or {}, (made and made.args) or {}
    if not wanted or not given:
        return _argument_result(0.0, wanted, given, task)
    if not panel.judges:
        return no_judge_result()
    said = await ask_all_upstream(panel, RUBRIC, _values(task, wanted, given))
    return _argument_result(mean_upstream(said)[2], wanted, given, task)


def _first_call(tool: str, trace: KoTrace) -> KoCall | None:
    return next((call for call in trace.own if call.tool == tool), None)


def _values(task: KoTask, wanted: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    return {
        "tool": str(task.first["tool"]),
        "schema": value_text(task.arg_schema) if task.arg_schema else "",
        "expected": value_text(wanted),
        "given": value_text(given),
    }


def _argument_result(
    score: float, wanted: Mapping[str, Any], given: Mapping[str, Any], task: KoTask
) -> MetricResult:
    """Give the score with precision, recall and F1 of arguments that Python takes for equal.

    Of the golden ones those count that were given, or whose value is not the schema's default anyway.
    """
    hits = sum(key in wanted and wanted[key] == value for key, value in given.items())
    filled = with_defaults({}, task)
    needed = [
        key for key, value in wanted.items() if key in given or key not in filled or filled[key] != value
    ]
    precision = hits / len(given) if given else 0.0
    recall = hits / len(needed) if needed else 0.0
    both = precision + recall
    details = {
        "ok": True,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
        "llm_judge_score": score,
    }
    return MetricResult(score, f"{hits} of {len(given)} arguments are equal", details)


@dataclass(frozen=True)
class KoArgAcc(JudgedMetricGrader):
    """ArgAcc: do the arguments mean what the golden ones mean?"""

    name: ClassVar[str] = "ko_arg_acc"
    metric: ClassVar[JudgedMetric] = JudgedMetric(
        "ArgAcc", argument_agreement, argument_agreement_upstream, one_rubric(RUBRIC)
    )

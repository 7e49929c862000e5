"""Level 1: do the arguments mean what the golden ones mean? Judges tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    AskedMetric,
    Asking,
    Panel,
    mean_upstream,
    of_scale,
    opinions,
    without_judge,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import Found, not_applicable
from pytest_agenteval.benchmarks.ko_agentbench.graders.showing import as_json
from pytest_agenteval.benchmarks.ko_agentbench.graders.single_tool import with_defaults
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace
from pytest_agenteval.graders.matching.equality import same

RUBRIC = "ko_arg_agreement"


async def argument_agreement(task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Give what judges say of the first call of the golden tool; equal arguments need no judge."""
    tool = task.first.get("tool")
    if not tool:
        return not_applicable("the task names no golden call")
    made = _first(tool, trace)
    if made is None:
        return Found(0.0, f"{tool} was never called")
    if not made.readable:
        return Found(0.0, "the arguments are no JSON object")
    given = made.args
    wanted: Mapping[str, Any] = task.first.get("args") or {}
    if same(with_defaults(wanted, task), with_defaults(given, task)):
        return Found(1.0, "the arguments are equal")
    if not given:
        return Found(0.0, "no arguments were given")
    if not panel.judges:
        return without_judge()
    return await panel.score(RUBRIC, _values(task, wanted, given))


async def argument_agreement_upstream(task: KoTask, trace: KoTrace, panel: Panel) -> Found:
    """Give the rounded mean of what judges say; 0 where either side has no arguments."""
    tool = task.first.get("tool")
    if not tool:
        return Found(0.0, "the task names no golden call", {})
    made = _first(tool, trace)
    wanted, given = task.first.get("args") or {}, (made and made.args) or {}
    if not wanted or not given:
        return _scored(0.0, wanted, given, task)
    if not panel.judges:
        return without_judge()
    said = await opinions(panel, RUBRIC, _values(task, wanted, given))
    return _scored(mean_upstream(said)[2], wanted, given, task)


def _first(tool: str, trace: KoTrace) -> KoCall | None:
    return next((call for call in trace.own if call.tool == tool), None)


def _values(task: KoTask, wanted: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    return {
        "tool": str(task.first["tool"]),
        "schema": as_json(task.arg_schema) if task.arg_schema else "",
        "expected": as_json(wanted),
        "given": as_json(given),
    }


def _scored(score: float, wanted: Mapping[str, Any], given: Mapping[str, Any], task: KoTask) -> Found:
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
    return Found(score, f"{hits} of {len(given)} arguments are equal", details)


@dataclass(frozen=True)
class KoArgAcc(Asking):
    """ArgAcc: do the arguments mean what the golden ones mean?"""

    name: ClassVar[str] = "ko_arg_acc"
    metric: ClassVar[AskedMetric] = AskedMetric(
        "ArgAcc", argument_agreement, argument_agreement_upstream, of_scale(RUBRIC)
    )

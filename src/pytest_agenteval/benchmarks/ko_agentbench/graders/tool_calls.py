"""Whether the right tools were called with the right arguments, in the right order (L1, L2, L3)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from pytest_agenteval import WrongSetting
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetric,
    JudgedMetricGrader,
    JudgePanel,
    ask_all_upstream,
    mean_upstream,
    no_judge_result,
    one_rubric,
    value_text,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    CodeMetric,
    ComputedGrader,
    KoCall,
    KoTrace,
    MetricResult,
    UpstreamError,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask
from pytest_agenteval.graders.answers import check_schema, schema_problems
from pytest_agenteval.text.json_values import json_equal


def first_tool(task: KoTask, trace: KoTrace) -> MetricResult:
    """Tell whether the first call is one of the first golden tool."""
    if not task.first.get("tool"):
        return not_applicable("the task names no golden tool")
    return _first_tool(task, trace)


def choice(task: KoTask, trace: KoTrace) -> MetricResult:
    """Tell whether the first call is one of the golden tool, where there were others to choose from."""
    offered = trace.offered or task.available_tools
    if offered and len(set(offered)) < 2:
        return not_applicable("there was one tool only")
    return first_tool(task, trace)


def first_tool_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    result = _first_tool(task, trace)
    return MetricResult(result.score, result.reason, {"matched": bool(result.score)})


def choice_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    # The same as ToolAcc: its loader offers the golden tool alone, so that there never was a choice.
    result = _first_tool(task, trace)
    return MetricResult(result.score, result.reason, {"success": bool(result.score)})


def _first_tool(task: KoTask, trace: KoTrace) -> MetricResult:
    golden_tool = task.first.get("tool")
    called = next((call.tool for call in trace.own if call.tool), None)
    if called is None:
        return MetricResult(0.0, f"no call was made; {golden_tool} was wanted")
    return MetricResult(float(called == golden_tool), f"{called} was called first; {golden_tool} was wanted")


def exact_call(task: KoTask, trace: KoTrace) -> MetricResult:
    """Tell whether the first call is the golden one, once both are given the schema's default values."""
    golden = task.first
    if not golden.get("tool"):
        return not_applicable("the task names no golden call")
    if not trace.own:
        return MetricResult(0.0, "no call was made")
    first = trace.own[0]
    if first.tool != golden["tool"]:
        return MetricResult(0.0, f"{first.tool} was called first; {golden['tool']} was wanted")
    if not first.readable:
        return MetricResult(0.0, "the first call's arguments are no JSON object")
    if json_equal(with_defaults(golden.get("args") or {}, task), with_defaults(first.args, task)):
        return MetricResult(1.0, "the first call is the golden call")
    return MetricResult(0.0, "the first call has other arguments than the golden call")


def exact_call_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Compare the first call with the golden one as Python does: 1 is 1.0 and is true."""
    golden, first = task.first, next(iter(trace.own), None)
    if first is None or not golden:
        return MetricResult(0.0, "there is no call to compare", {})
    # The == of Python, with which true equals 1. Defaults of the schema are not filled in.
    equal = first.tool == golden.get("tool") and dict(first.args or {}) == dict(golden.get("args") or {})
    return MetricResult(float(equal), f"the first call {'equals' if equal else 'is not'} the golden call", {})


def with_defaults(args: Mapping[str, Any], task: KoTask) -> dict[str, Any]:
    """Fill in the defaults of the schema for arguments that were left out."""
    schemas = task.arg_schema or {}
    defaults = {name: schema["default"] for name, schema in schemas.items() if "default" in schema}
    return {**defaults, **args}


def response_in_form(task: KoTask, trace: KoTrace) -> MetricResult:
    """Tell whether the answer has the form that the task wants; JSON is read first where it is wanted."""
    schema = task.resp_schema
    if not schema:
        return not_applicable("the task asks for no form")
    if not trace.answer:
        return MetricResult(0.0, "there is no answer")
    wrong = schema_problem(schema, trace.final_response)
    if wrong and isinstance(trace.final_response, str):
        try:
            answer = json.loads(trace.final_response)
        except (ValueError, RecursionError):
            answer = trace.final_response
        wrong = schema_problem(schema, answer)
    if wrong == NO_SCHEMA:
        return MetricResult(None, f"resp_schema is {NO_SCHEMA}", undecided="not_applicable")
    return MetricResult(float(not wrong), wrong or "the answer has the form that is asked for")


def response_in_form_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Validate the answer as it stands: texts, lists and maps only."""
    schema, answer = task.resp_schema, trace.final_response
    # Its code takes no number and no truth value for an answer, and reads no JSON out of a text.
    if not isinstance(schema, Mapping) or not isinstance(answer, str | list | tuple | Mapping):
        return MetricResult(0.0, "there is no schema, or no answer of a kind that is validated", {})
    wrong = schema_problem(schema, answer)
    return MetricResult(float(not wrong), wrong or "the answer is valid", {})


NO_SCHEMA = "no JSON Schema"


def schema_problem(schema: Mapping[str, Any], answer: Any) -> str:
    """Say what is wrong with a value by a JSON Schema; empty where nothing is."""
    if not schema:
        return ""
    try:
        check_schema("resp_schema", schema)
    except WrongSetting:
        return NO_SCHEMA
    return "; ".join(schema_problems(schema, answer))


@dataclass(frozen=True)
class KoToolAcc(ComputedGrader):
    """ToolAcc: was the golden tool called first?"""

    name: ClassVar[str] = "ko_tool_acc"
    threshold: ClassVar[float] = 1.0
    metric: ClassVar[CodeMetric] = CodeMetric("ToolAcc", first_tool, first_tool_upstream)


@dataclass(frozen=True)
class KoCallEm(ComputedGrader):
    """CallEM: is the first call exactly the golden one?"""

    name: ClassVar[str] = "ko_call_em"
    metric: ClassVar[CodeMetric] = CodeMetric("CallEM", exact_call, exact_call_upstream)


@dataclass(frozen=True)
class KoRespOk(ComputedGrader):
    """RespOK: does the answer have the form that the task asks for?"""

    # Reading jsonschema for the first time is no matter of microseconds.
    quick: ClassVar[bool] = False
    name: ClassVar[str] = "ko_resp_ok"
    metric: ClassVar[CodeMetric] = CodeMetric("RespOK", response_in_form, response_in_form_upstream)


@dataclass(frozen=True)
class KoSelectAcc(ComputedGrader):
    """SelectAcc: was the golden tool chosen among those that were offered?"""

    name: ClassVar[str] = "ko_select_acc"
    threshold: ClassVar[float] = 1.0
    metric: ClassVar[CodeMetric] = CodeMetric("SelectAcc", choice, choice_upstream)


RUBRIC = "ko_arg_agreement"


async def argument_agreement(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give what judges say of the first call of the golden tool; equal arguments need no judge."""
    tool = task.first.get("tool")
    if not tool:
        return not_applicable("the task names no golden call")
    call = _first_call(tool, trace)
    if call is None:
        return MetricResult(0.0, f"{tool} was never called")
    if not call.readable:
        return MetricResult(0.0, "the arguments are no JSON object")
    actual = call.args
    expected: Mapping[str, Any] = task.first.get("args") or {}
    # Judges cost money: they decide nothing that can be decided without them.
    if json_equal(with_defaults(expected, task), with_defaults(actual, task)):
        return MetricResult(1.0, "the arguments are equal")
    if not actual:
        return MetricResult(0.0, "no arguments were given")
    if not panel.judges:
        return no_judge_result()
    return await panel.score(RUBRIC, _values(task, expected, actual))


async def argument_agreement_upstream(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give the rounded mean of what judges say; 0 where either side has no arguments."""
    tool = task.first.get("tool")
    if not tool:
        return MetricResult(0.0, "the task names no golden call", {})
    call = _first_call(tool, trace)
    expected, actual = task.first.get("args") or {}, (call and call.args) or {}
    if not expected or not actual:
        return _argument_result(0.0, expected, actual, task)
    if not panel.judges:
        return no_judge_result()
    judge_votes = await ask_all_upstream(panel, RUBRIC, _values(task, expected, actual))
    return _argument_result(mean_upstream(judge_votes)[2], expected, actual, task)


def _first_call(tool: str, trace: KoTrace) -> KoCall | None:
    return next((call for call in trace.own if call.tool == tool), None)


def _values(task: KoTask, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> dict[str, str]:
    return {
        "tool": str(task.first["tool"]),
        "schema": value_text(task.arg_schema) if task.arg_schema else "",
        "expected": value_text(expected),
        "given": value_text(actual),
    }


def _argument_result(
    score: float, expected: Mapping[str, Any], actual: Mapping[str, Any], task: KoTask
) -> MetricResult:
    """Give the score with precision, recall and F1 of arguments that Python takes for equal.

    Of the golden ones those count that were given, or whose value is not the schema's default anyway.
    """
    hits = sum(key in expected and expected[key] == value for key, value in actual.items())
    filled = with_defaults({}, task)
    needed = [
        key for key, value in expected.items() if key in actual or key not in filled or filled[key] != value
    ]
    precision = hits / len(actual) if actual else 0.0
    recall = hits / len(needed) if needed else 0.0
    both = precision + recall
    f1 = 2 * precision * recall / both if both else 0.0
    details = {"ok": True, "precision": precision, "recall": recall, "f1": f1, "llm_judge_score": score}
    return MetricResult(score, f"{hits} of {len(actual)} arguments are equal", details)


@dataclass(frozen=True)
class KoArgAcc(JudgedMetricGrader):
    """ArgAcc: do the arguments mean what the golden ones mean?"""

    name: ClassVar[str] = "ko_arg_acc"
    metric: ClassVar[JudgedMetric] = JudgedMetric(
        "ArgAcc", argument_agreement, argument_agreement_upstream, one_rubric(RUBRIC)
    )


def full_match(task: KoTask, trace: KoTrace) -> MetricResult:
    """Tell whether the calls are the golden path, those of one step in any order."""
    groups = _steps(task.golden_calls)
    if not groups:
        return not_applicable("the task has no golden path")
    called = [call.tool for call in trace.own]
    expected = [tool for group in groups for tool in group]
    if len(called) != len(expected):
        return MetricResult(0.0, f"{len(called)} calls were made; the golden path has {len(expected)}")
    at = 0
    for number, group in enumerate(groups, 1):
        here = called[at : at + len(group)]
        at += len(group)
        if Counter(here) != Counter(group):
            return MetricResult(0.0, f"step {number} called {', '.join(here)}; wanted was {', '.join(group)}")
    return MetricResult(1.0, "the calls are those of the golden path")


def _steps(calls: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Give the tools of each step; a call without a step is one by itself, after those that have one."""
    # False sorts before True: steps with a number come first, then each call without one as its own group.
    ordered = []
    for place, call in enumerate(calls):
        step = call.get("step")
        group = (True, place) if step is None else (False, step)
        ordered.append((group, place, str(call["tool"])))
    ordered.sort(key=lambda entry: entry[:2])
    return [[tool for _, _, tool in group] for _, group in groupby(ordered, key=lambda entry: entry[0])]


def full_match_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Compare the tools place by place, in the order in which they are listed."""
    # Its code walks over a list here, and throws for a map.
    if isinstance(task.golden_action, Mapping):
        raise UpstreamError("golden_action is a map, and it wants a list")
    expected, called = [action.get("tool") for action in task.golden], [call.tool for call in trace.own]
    if len(expected) != len(called):
        reason = f"{len(called)} calls were made; the golden path has {len(expected)}"
        details = {"golden_steps": len(expected), "actual_steps": len(called), "reason": reason}
        return MetricResult(0.0, reason, details)
    equal = expected == called
    details = {"golden_sequence": expected, "actual_sequence": called, "match": equal}
    return MetricResult(float(equal), "the tools are the same" if equal else "the tools are others", details)


def partial_match(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the golden calls, by weight, whose tool was called."""
    if not task.golden_calls:
        return not_applicable("the task has no golden path")
    result = _matched_weight(task.golden_calls, trace)
    return MetricResult(result.score, result.reason)


def partial_match_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give the share of the golden actions, by weight, whose tool was called; 0 without any."""
    if not task.golden:
        return MetricResult(0.0, "the task has no golden path", {})
    return _matched_weight(task.golden, trace)


def _matched_weight(golden: Sequence[Mapping[str, Any]], trace: KoTrace) -> MetricResult:
    # By tool and not by call: one call stands for every golden call of its tool, in both modes.
    called = {call.tool for call in trace.own}
    matched, missing, weight, total = [], [], 0.0, 0.0
    for action in golden:
        tool, action_weight = action.get("tool"), action.get("weight", 1)
        total += action_weight
        if tool in called:
            matched.append(tool)
            weight += action_weight
        else:
            missing.append(tool)
    reason = f"never called: {', '.join(map(str, missing))}" if missing else "every golden tool was called"
    tools = {"matched_tools": matched, "missing_tools": missing}
    details = {"matched_weight": weight, "total_weight": total, **tools}
    return MetricResult(weight / total if total else 0.0, reason, details)


def step_economy(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give min(1, least calls / calls made); without calls it is 0, unless none is needed."""
    if task.minimum_steps is None and not task.golden_calls:
        return not_applicable("the task says neither minimum_steps nor golden_action")
    least = len(task.golden_calls) if task.minimum_steps is None else task.minimum_steps
    call_count = len(trace.own)
    score = share(least, call_count) if call_count else float(least == 0)
    return MetricResult(score, f"{call_count} calls were made; {least} will do")


def step_economy_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give max(0, 1 - extra calls / least calls); too few calls score 0."""
    call_count = len(trace.own)
    # Only null counts the golden path: 0 is a number of steps.
    least = (len(task.golden) or 1) if task.minimum_steps is None else task.minimum_steps
    reason = f"{call_count} calls were made; {least} will do"
    if least <= 0:
        return MetricResult(0.0, reason, {"reason": reason})
    extra = call_count - least
    # Only this detail is rounded, and not the score.
    delta = round(extra / least, 4)
    details = {"minimum_steps": least, "actual_steps": call_count, "delta_norm": delta, "extra_steps": extra}
    return MetricResult(0.0 if extra < 0 else max(0.0, 1 - extra / least), reason, details)


@dataclass(frozen=True)
class KoFsm(ComputedGrader):
    """FSM: are the calls the golden path, all of it and nothing else?"""

    name: ClassVar[str] = "ko_fsm"
    metric: ClassVar[CodeMetric] = CodeMetric("FSM", full_match, full_match_upstream)


@dataclass(frozen=True)
class KoPsm(ComputedGrader):
    """PSM: which share of the golden path's tools was called?"""

    name: ClassVar[str] = "ko_psm"
    metric: ClassVar[CodeMetric] = CodeMetric("PSM", partial_match, partial_match_upstream)


@dataclass(frozen=True)
class KoDeltaSteps(ComputedGrader):
    """ΔSteps_norm: how near is the number of calls to the least that will do?"""

    name: ClassVar[str] = "ko_delta_steps"
    metric: ClassVar[CodeMetric] = CodeMetric("ΔSteps_norm", step_economy, step_economy_upstream)

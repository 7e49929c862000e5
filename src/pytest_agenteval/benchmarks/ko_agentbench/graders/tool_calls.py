"""Whether the right tools were called with the right arguments, in the right order (L1, L2, L3)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from pytest_agenteval import WrongSetting
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetricGrader,
    JudgePanel,
    ask_all_upstream,
    mean_upstream,
    no_judge_result,
    one_rubric,
    value_text,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
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


@dataclass(frozen=True)
class KoToolAcc(ComputedGrader):
    """ToolAcc: was the golden tool called first?"""

    name: ClassVar[str] = "ko_tool_acc"
    threshold: ClassVar[float] = 1.0
    # What the benchmark's report calls the flag.
    flag: ClassVar[str] = "matched"

    def default(self, trace: KoTrace) -> MetricResult:
        if not self.first.get("tool"):
            return not_applicable("the task names no golden tool")
        return self._first_call(trace)

    def upstream(self, trace: KoTrace) -> MetricResult:
        result = self._first_call(trace)
        return MetricResult(result.score, result.reason, {self.flag: bool(result.score)})

    def _first_call(self, trace: KoTrace) -> MetricResult:
        golden_tool = self.first.get("tool")
        called = next((call.tool for call in trace.own if call.tool), None)
        if called is None:
            return MetricResult(0.0, f"no call was made; {golden_tool} was wanted")
        reason = f"{called} was called first; {golden_tool} was wanted"
        return MetricResult(float(called == golden_tool), reason)


@dataclass(frozen=True)
class KoSelectAcc(KoToolAcc):
    """SelectAcc: was the golden tool chosen among those that were offered?"""

    # Upstream it is ToolAcc: the benchmark's loader offers the golden tool alone, which is no choice.
    name: ClassVar[str] = "ko_select_acc"
    flag: ClassVar[str] = "success"

    def default(self, trace: KoTrace) -> MetricResult:
        offered = trace.offered or self.available_tools
        if offered and len(set(offered)) < 2:
            return not_applicable("there was one tool only")
        return super().default(trace)


@dataclass(frozen=True)
class KoCallEm(ComputedGrader):
    """CallEM: is the first call exactly the golden one?"""

    name: ClassVar[str] = "ko_call_em"

    def default(self, trace: KoTrace) -> MetricResult:
        """Compare the calls once both are given the schema's default values."""
        golden = self.first
        if not golden.get("tool"):
            return not_applicable("the task names no golden call")
        if not trace.own:
            return MetricResult(0.0, "no call was made")
        first = trace.own[0]
        if first.tool != golden["tool"]:
            return MetricResult(0.0, f"{first.tool} was called first; {golden['tool']} was wanted")
        if not first.readable:
            return MetricResult(0.0, "the first call's arguments are no JSON object")
        if json_equal(with_defaults(golden.get("args") or {}, self), with_defaults(first.args, self)):
            return MetricResult(1.0, "the first call is the golden call")
        return MetricResult(0.0, "the first call has other arguments than the golden call")

    def upstream(self, trace: KoTrace) -> MetricResult:
        golden, first = self.first, next(iter(trace.own), None)
        if first is None or not golden:
            return MetricResult(0.0, "there is no call to compare", {})
        # The == of Python, with which true equals 1. Defaults of the schema are not filled in.
        equal = first.tool == golden.get("tool") and dict(first.args or {}) == dict(golden.get("args") or {})
        reason = f"the first call {'equals' if equal else 'is not'} the golden call"
        return MetricResult(float(equal), reason, {})


def with_defaults(args: Mapping[str, Any], task: KoTask) -> dict[str, Any]:
    """Fill in the defaults of the schema for arguments that were left out."""
    schemas = task.arg_schema or {}
    return {**{name: schema["default"] for name, schema in schemas.items() if "default" in schema}, **args}


NO_SCHEMA = "no JSON Schema"


@dataclass(frozen=True)
class KoRespOk(ComputedGrader):
    """RespOK: does the answer have the form that the task asks for?"""

    # Reading jsonschema for the first time is no matter of microseconds.
    quick: ClassVar[bool] = False
    name: ClassVar[str] = "ko_resp_ok"

    def default(self, trace: KoTrace) -> MetricResult:
        """Look at the answer as it stands, then at the JSON that it may be."""
        schema, answer = self.resp_schema, trace.final_response
        if not schema:
            return not_applicable("the task asks for no form")
        if not trace.answer:
            return MetricResult(0.0, "there is no answer")
        wrong = _schema_problem(schema, answer)
        if wrong and isinstance(answer, str):
            with suppress(ValueError, RecursionError):
                wrong = _schema_problem(schema, json.loads(answer))
        if wrong == NO_SCHEMA:
            return MetricResult(None, f"resp_schema is {NO_SCHEMA}", undecided="not_applicable")
        return MetricResult(float(not wrong), wrong or "the answer has the form that is asked for")

    def upstream(self, trace: KoTrace) -> MetricResult:
        schema, answer = self.resp_schema, trace.final_response
        # Its code takes no number and no truth value for an answer, and reads no JSON out of a text.
        if not isinstance(schema, Mapping) or not isinstance(answer, str | list | tuple | Mapping):
            return MetricResult(0.0, "there is no schema, or no answer of a kind that is validated", {})
        wrong = _schema_problem(schema, answer)
        return MetricResult(float(not wrong), wrong or "the answer is valid", {})


def _schema_problem(schema: Mapping[str, Any], answer: Any) -> str:
    """Say what is wrong with a value by a JSON Schema; empty where nothing is."""
    if not schema:
        return ""
    try:
        check_schema("resp_schema", schema)
    except WrongSetting:
        return NO_SCHEMA
    return "; ".join(schema_problems(schema, answer))


RUBRIC = "ko_arg_agreement"


@dataclass(frozen=True)
class KoArgAcc(JudgedMetricGrader):
    """ArgAcc: do the arguments mean what the golden ones mean?"""

    name: ClassVar[str] = "ko_arg_acc"
    rubrics: ClassVar = one_rubric(RUBRIC)

    async def default(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give what judges say of the first call of the golden tool; equal arguments need no judge."""
        tool = self.first.get("tool")
        if not tool:
            return not_applicable("the task names no golden call")
        call = _first_call(tool, trace)
        if call is None:
            return MetricResult(0.0, f"{tool} was never called")
        if not call.readable:
            return MetricResult(0.0, "the arguments are no JSON object")
        expected: Mapping[str, Any] = self.first.get("args") or {}
        # Judges cost money: they decide nothing that can be decided without them.
        if json_equal(with_defaults(expected, self), with_defaults(call.args, self)):
            return MetricResult(1.0, "the arguments are equal")
        if not call.args:
            return MetricResult(0.0, "no arguments were given")
        if not panel.judges:
            return no_judge_result()
        return await panel.score(RUBRIC, self._values(expected, call.args))

    async def upstream(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give the rounded mean of what judges say; 0 where either side has no arguments."""
        tool = self.first.get("tool")
        if not tool:
            return MetricResult(0.0, "the task names no golden call", {})
        call = _first_call(tool, trace)
        expected, actual = self.first.get("args") or {}, (call and call.args) or {}
        score = 0.0
        if expected and actual:
            if not panel.judges:
                return no_judge_result()
            votes = await ask_all_upstream(panel, RUBRIC, self._values(expected, actual))
            score = mean_upstream(votes)[2]
        return self._upstream_result(score, expected, actual)

    def _values(self, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> dict[str, str]:
        return {
            "tool": str(self.first["tool"]),
            "schema": value_text(self.arg_schema) if self.arg_schema else "",
            "expected": value_text(expected),
            "given": value_text(actual),
        }

    def _upstream_result(
        self, score: float, expected: Mapping[str, Any], actual: Mapping[str, Any]
    ) -> MetricResult:
        """Give the score with precision, recall and F1 of arguments that Python takes for equal.

        Of the golden ones those count that were given, or whose value is not the schema's default anyway.
        """
        hits = sum(key in expected and expected[key] == value for key, value in actual.items())
        filled = with_defaults({}, self)
        needed = sum(
            key in actual or key not in filled or filled[key] != value for key, value in expected.items()
        )
        precision = hits / len(actual) if actual else 0.0
        recall = hits / needed if needed else 0.0
        both = precision + recall
        f1 = 2 * precision * recall / both if both else 0.0
        details = {"ok": True, "precision": precision, "recall": recall, "f1": f1, "llm_judge_score": score}
        return MetricResult(score, f"{hits} of {len(actual)} arguments are equal", details)


def _first_call(tool: str, trace: KoTrace) -> KoCall | None:
    return next((call for call in trace.own if call.tool == tool), None)


@dataclass(frozen=True)
class KoFsm(ComputedGrader):
    """FSM: are the calls the golden path, all of it and nothing else?"""

    name: ClassVar[str] = "ko_fsm"

    def default(self, trace: KoTrace) -> MetricResult:
        """Compare step by step; the calls of one step may come in any order."""
        groups, called = _steps(self.golden_calls), [call.tool for call in trace.own]
        if not groups:
            return not_applicable("the task has no golden path")
        if len(called) != sum(map(len, groups)):
            reason = f"{len(called)} calls were made; the golden path has {sum(map(len, groups))}"
            return MetricResult(0.0, reason)
        at = 0
        for number, group in enumerate(groups, 1):
            here = called[at : at + len(group)]
            at += len(group)
            if Counter(here) != Counter(group):
                reason = f"step {number} called {', '.join(here)}; wanted was {', '.join(group)}"
                return MetricResult(0.0, reason)
        return MetricResult(1.0, "the calls are those of the golden path")

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Compare the tools place by place, in the order in which they are listed."""
        # Its code walks over a list here, and throws for a map.
        if isinstance(self.golden_action, Mapping):
            raise UpstreamError("golden_action is a map, and it wants a list")
        expected, called = [action.get("tool") for action in self.golden], [call.tool for call in trace.own]
        if len(expected) != len(called):
            reason = f"{len(called)} calls were made; the golden path has {len(expected)}"
            details = {"golden_steps": len(expected), "actual_steps": len(called), "reason": reason}
            return MetricResult(0.0, reason, details)
        equal = expected == called
        details = {"golden_sequence": expected, "actual_sequence": called, "match": equal}
        return MetricResult(float(equal), f"the tools are {'the same' if equal else 'others'}", details)


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


@dataclass(frozen=True)
class KoPsm(ComputedGrader):
    """PSM: which share of the golden path's tools was called?"""

    name: ClassVar[str] = "ko_psm"

    def default(self, trace: KoTrace) -> MetricResult:
        if not self.golden_calls:
            return not_applicable("the task has no golden path")
        result = _matched_weight(self.golden_calls, trace)
        return MetricResult(result.score, result.reason)

    def upstream(self, trace: KoTrace) -> MetricResult:
        if not self.golden:
            return MetricResult(0.0, "the task has no golden path", {})
        return _matched_weight(self.golden, trace)


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


@dataclass(frozen=True)
class KoDeltaSteps(ComputedGrader):
    """ΔSteps_norm: how near is the number of calls to the least that will do?"""

    name: ClassVar[str] = "ko_delta_steps"

    def default(self, trace: KoTrace) -> MetricResult:
        """Give min(1, least calls / calls made); without calls it is 0, unless none is needed."""
        if self.minimum_steps is None and not self.golden_calls:
            return not_applicable("the task says neither minimum_steps nor golden_action")
        least = len(self.golden_calls) if self.minimum_steps is None else self.minimum_steps
        call_count = len(trace.own)
        score = share(least, call_count) if call_count else float(least == 0)
        return MetricResult(score, f"{call_count} calls were made; {least} will do")

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Give max(0, 1 - extra calls / least calls); too few calls score 0."""
        # Only null counts the golden path: 0 is a number of steps.
        least = (len(self.golden) or 1) if self.minimum_steps is None else self.minimum_steps
        made = len(trace.own)
        reason = f"{made} calls were made; {least} will do"
        if least <= 0:
            return MetricResult(0.0, reason, {"reason": reason})
        extra = made - least
        # Only this detail is rounded, and not the score.
        delta = round(extra / least, 4)
        details = {"minimum_steps": least, "actual_steps": made, "delta_norm": delta, "extra_steps": extra}
        return MetricResult(0.0 if extra < 0 else max(0.0, 1 - extra / least), reason, details)

"""Level 6: was what the conversation held already used, and the task done without needless calls?

A call that asks for the same is the same, however it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetric,
    JudgedMetricGrader,
    JudgePanel,
    UpstreamVote,
    ask_all_upstream,
    before_the_question,
    calls_alone,
    calls_with_results,
    majority_upstream,
    no_judge_result,
    one_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    CodeMetric,
    ComputedGrader,
    MetricResult,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask, as_json
from pytest_agenteval.benchmarks.ko_agentbench.graders.tool_results import is_valid
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoCall, KoTrace
from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.cassettes.request_matching import ParamMatchers
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import fold_texts, json_equal

Call = tuple[str, Mapping[str, Any]]


class ToolDefaults(FrozenValue, frozen=True):
    """What a tool takes for granted: its defaults, and the differences that its ``matching`` ignores.

    A search for more words is another search, also where a recording of the shorter one would answer it.
    """

    defaults: Mapping[str, Any]
    rules: ParamMatchers


@cache
def tool_defaults(tool: str) -> ToolDefaults:
    """Give what is known of a packaged tool; of any other, nothing is taken for granted."""
    declared = korean_tools().get(tool)
    if declared is None:
        return ToolDefaults({}, ParamMatchers())
    properties = declared.spec.parameters.get("properties", {})
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    matching = {name: "folded" if rule == "contains" else rule for name, rule in declared.matching.items()}
    return ToolDefaults(defaults, ParamMatchers(matching))


def normalize_args(call: Call) -> dict[str, Any]:
    """Give a call's arguments with the tool's defaults, and without those that are null."""
    tool, args = call
    present = {name: value for name, value in args.items() if value is not None}
    normalized: dict[str, Any] = fold_texts({**tool_defaults(tool).defaults, **present})
    return normalized


def equal_calls(call: Call, other: Call) -> bool:
    """Whether two calls ask for the same in other spellings, defaults left out or spelled out."""
    return call[0] == other[0] and json_equal(normalize_args(call), normalize_args(other))


def same_call(call: Call, other: Call, task: KoTask) -> bool:
    """Whether two calls ask for the same, or differ only in what the tool's ``matching`` ignores.

    They do not where the task itself wants both: sorted anew, say.
    """
    if call[0] != other[0]:
        return False
    if equal_calls(call, other):
        return True
    if not tool_defaults(call[0]).rules.accepts(normalize_args(other), normalize_args(call)):
        return False
    golden = [(str(action["tool"]), action.get("args") or {}) for action in task.golden_calls]
    return _nearest(call, golden) == _nearest(other, golden)


def _nearest(call: Call, golden: Sequence[Call]) -> int | None:
    """Give the place of the golden call that a call stands for, None where it stands for none."""
    rules, args = tool_defaults(call[0]).rules, normalize_args(call)
    candidates = [
        (at, normalize_args(args_of_golden))
        for at, args_of_golden in enumerate(golden)
        if args_of_golden[0] == call[0]
    ]
    ranks = [
        (rules.nearness(args_of_golden, args), -at)
        for at, args_of_golden in candidates
        if rules.accepts(args_of_golden, args)
    ]
    return -max(ranks)[1] if ranks else None


def count_repeated_calls(task: KoTask, calls: Sequence[KoCall]) -> int:
    """Count the agent's calls that give what an earlier successful call, also a seeded one, gave already."""
    worked = [call for call in calls if is_valid(call)]
    requests = [(call.tool, call.args) for call in worked]
    return sum(
        # Seeded calls are no repeats but can be repeated: that is what the level is about.
        not call.seeded and any(same_call(requests[at], earlier, task) for earlier in requests[:at])
        for at, call in enumerate(worked)
    )


def non_redundant(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give 1 less the repeated calls by the opportunities for reuse, never below 0."""
    chances = task.reuses
    if not chances:
        return not_applicable("the task has nothing to use again")
    again = count_repeated_calls(task, trace.calls)
    return MetricResult(
        share(chances - again, chances), f"{again} repeated calls, {chances} chances to do without"
    )


def non_redundant_upstream(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give 1 less the repeats among the agent's own calls by the opportunities; it may be far below 0."""
    worked = [_key(call) for call in trace.own if call.success]
    again, chances = len(worked) - len(set(worked)), task.reuses
    non_redundant = chances - again
    details = {
        "reuse_opportunities": chances,
        "redundant_calls": again,
        "non_redundant_calls": non_redundant,
        "total_calls": len(trace.own),
        "unique_calls": len(set(worked)),
        "redundant_rate": again / chances if chances else 0.0,
        "non_redundant_rate": 1 - again / chances if chances else 1.0,
    }
    # Not bounded below: -8 is among the published figures.
    score = 1 - again / chances if chances else 1.0
    return MetricResult(score, f"{again} repeated calls, {chances} chances to do without", details)


def _key(call: KoCall) -> tuple[str, str]:
    return call.tool, as_json(call.args or {}, sorted_keys=True)


def reuse(task: KoTask, trace: KoTrace) -> MetricResult:
    """Give reuse by reuse and repeated calls; without an answer nothing was used again."""
    chances = task.reuses
    if not chances:
        return not_applicable("the task has nothing to use again")
    again = count_repeated_calls(task, trace.calls)
    used = max(0, chances - again) if trace.answer else 0
    score = share(used, used + again) if used else 0.0
    return MetricResult(score, f"used again {used} times, asked for again {again} times")


@dataclass(frozen=True)
class KoReuseRate(ComputedGrader):
    """ReuseRate: how often was something used again, rather than asked for again?"""

    name: ClassVar[str] = "ko_reuse_rate"
    metric: ClassVar[CodeMetric] = CodeMetric("ReuseRate", reuse, None)


@dataclass(frozen=True)
class KoRedundantCalls(ComputedGrader):
    """RedundantCallRate: 1 where no call asks for what is known already."""

    name: ClassVar[str] = "ko_redundant_calls"
    metric: ClassVar[CodeMetric] = CodeMetric("RedundantCallRate", non_redundant, non_redundant_upstream)


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
    call_count, needed = len(trace.calls), _needed_calls(task, trace)
    score = (share(needed, call_count) if call_count else 1.0) if done.score else 0.0
    counts = f"{call_count} calls were made, {call_count - len(trace.own)} of them given; {needed} will do"
    return MetricResult(score, f"{counts}; done: {done.reason}", more=done.more)


async def economy_upstream(task: KoTask, trace: KoTrace, panel: JudgePanel) -> MetricResult:
    """Give 0 where it was not done, also where no call was made, else the least calls by those made."""
    call_count = len(trace.own)
    # Its evaluator is never given minimum_calls: in a log the distinct golden calls stand for them.
    needed = (_distinct(task) or 1) if task.minimum_calls is None else task.minimum_calls
    if not panel.judges and call_count:
        return no_judge_result()
    values = {
        # The first turn, though it is a later one that was answered: it knows no other.
        "task": task.instruction or trace.instruction,
        "conversation": "",
        "calls": calls_alone(trace.own),
        "answer": "" if trace.final_response is None else str(trace.final_response),
    }
    # Also where no call was made and the score is 0 whatever they say: its report holds the votes.
    judge_votes = await ask_all_upstream(panel, RUBRIC, values)
    votes = [vote.number == 1 for vote in judge_votes]
    done = majority_upstream(votes)
    reason = f"{sum(votes)} of {len(votes)} judges say that it was done"
    score = min(1.0, needed / call_count) if done and call_count else 0.0
    details = {
        "success": done,
        "actual_calls": call_count,
        "minimum_calls": needed,
        **({"efficiency": score} if done and call_count else {}),
        "llm_reason": reason,
        "vote_details": {"positive": sum(votes), "negative": len(votes) - sum(votes), "total": len(votes)},
        "individual_judges": _vote_details(judge_votes),
    }
    return MetricResult(score, f"{call_count} calls were made; {needed} will do; {reason}", details)


def _needed_calls(task: KoTask, trace: KoTrace) -> int:
    """Count the calls that were given, and the golden ones that none of them makes needless."""
    seeded = [call for call in trace.calls if call.seeded]
    needed, available = len(seeded), [(call.tool, call.args) for call in seeded if is_valid(call)]
    for action in task.golden_calls:
        request = (str(action["tool"]), action.get("args") or {})
        if not any(equal_calls(request, earlier) for earlier in available):
            available.append(request)
            needed += 1
    return max(needed, task.minimum_calls or 0)


def _distinct(task: KoTask) -> int:
    """Count the different golden calls."""
    return len({(call["tool"], _args_text(call.get("args"))) for call in task.golden_calls})


def _args_text(args: object) -> str:
    return as_json(args or {}, sorted_keys=True)


def _vote_details(judge_votes: Sequence[UpstreamVote]) -> list[dict[str, object]]:
    return [
        {"success": vote.number == 1, "reason": vote.reason, "judge_id": place, "judge_model": vote.judge}
        for place, vote in enumerate(judge_votes, 1)
    ]


@dataclass(frozen=True)
class KoEffScore(JudgedMetricGrader):
    """EffScore: was the task done with no more calls than it needs?"""

    name: ClassVar[str] = "ko_eff_score"
    metric: ClassVar[JudgedMetric] = JudgedMetric("EffScore", economy, economy_upstream, one_rubric(RUBRIC))

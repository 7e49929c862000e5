"""Calls that were saved, repeated or made in place of one that failed (L5, L6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetricGrader,
    JudgePanel,
    ask_all_upstream,
    before_the_question,
    calls_alone,
    calls_with_results,
    majority_upstream,
    no_judge_result,
    one_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    ComputedGrader,
    KoCall,
    KoTrace,
    MetricResult,
    is_valid,
    not_applicable,
    share,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import KoTask, as_json
from pytest_agenteval.benchmarks.ko_agentbench.register import korean_tools
from pytest_agenteval.cassettes.request_matching import ParamMatchers
from pytest_agenteval.text.json_values import fold_texts, json_equal

Call = tuple[str, Mapping[str, Any]]


@cache
def _tool_defaults(tool: str) -> tuple[Mapping[str, Any], ParamMatchers]:
    """Give a packaged tool's defaults, and the differences that its ``matching`` ignores; else nothing."""
    declared = korean_tools().get(tool)
    if declared is None:
        return {}, ParamMatchers()
    properties = declared.spec.parameters.get("properties", {})
    defaults = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    # A search for more words is another search, even where a recording of the shorter one would answer it.
    matching = {name: "folded" if rule == "contains" else rule for name, rule in declared.matching.items()}
    return defaults, ParamMatchers(matching)


def normalize_args(call: Call) -> dict[str, Any]:
    """Give a call's arguments with the tool's defaults, and without those that are null."""
    tool, args = call
    present = {name: value for name, value in args.items() if value is not None}
    normalized: dict[str, Any] = fold_texts({**_tool_defaults(tool)[0], **present})
    return normalized


def equal_calls(call: Call, other: Call) -> bool:
    """Whether two calls ask for the same in other spellings, defaults left out or spelled out."""
    return call[0] == other[0] and json_equal(normalize_args(call), normalize_args(other))


def same_call(call: Call, other: Call, task: KoTask) -> bool:
    """Whether two calls ask for the same, or differ only in what the tool's ``matching`` ignores.

    Two calls that the task wants both, such as one list in two orders, are not the same.
    """
    if call[0] != other[0]:
        return False
    if equal_calls(call, other):
        return True
    if not _tool_defaults(call[0])[1].accepts(normalize_args(other), normalize_args(call)):
        return False
    # `matching` ignores the sort order, for example; a golden path may ask for both orders all the same.
    golden = _golden_requests(task)
    return _nearest(call, golden) == _nearest(other, golden)


def _nearest(call: Call, golden: Sequence[Call]) -> int | None:
    """Give the place of the golden call that a call stands for, None where it stands for none."""
    rules, args = _tool_defaults(call[0])[1], normalize_args(call)
    ranks = []
    for at, golden_call in enumerate(golden):
        if golden_call[0] == call[0]:
            golden_args = normalize_args(golden_call)
            if rules.accepts(golden_args, args):
                ranks.append((rules.nearness(golden_args, args), -at))
    return -max(ranks)[1] if ranks else None


def count_repeated_calls(task: KoTask, calls: Sequence[KoCall]) -> int:
    """Count the agent's calls that repeat an earlier successful call, which may be a seeded one."""
    worked = [call for call in calls if is_valid(call)]
    requests = [(call.tool, call.args) for call in worked]
    return sum(
        # Seeded calls are no repeats but can be repeated: that is what the level is about.
        not call.seeded and any(same_call(requests[at], earlier, task) for earlier in requests[:at])
        for at, call in enumerate(worked)
    )


@dataclass(frozen=True)
class KoReuseRate(ComputedGrader):
    """ReuseRate: how often was something used again, rather than requested again?"""

    # The benchmark documents this metric, but removed it from its code.
    name: ClassVar[str] = "ko_reuse_rate"

    def default(self, trace: KoTrace) -> MetricResult:
        """Give reuse / (reuse + repeated calls); without an answer nothing was used again."""
        chances = self.reuses
        if not chances:
            return NO_REUSE
        again = count_repeated_calls(self, trace.calls)
        used = max(0, chances - again) if trace.answer else 0
        score = share(used, used + again) if used else 0.0
        return MetricResult(score, f"used again {used} times, asked for again {again} times")


NO_REUSE = not_applicable("the task has nothing to use again")


@dataclass(frozen=True)
class KoRedundantCalls(ComputedGrader):
    """RedundantCallRate: 1 where no call asks for what is known already."""

    name: ClassVar[str] = "ko_redundant_calls"

    def default(self, trace: KoTrace) -> MetricResult:
        """Give 1 - repeated calls / opportunities for reuse, never below 0."""
        chances = self.reuses
        if not chances:
            return NO_REUSE
        again = count_repeated_calls(self, trace.calls)
        reason = f"{again} repeated calls, {chances} chances to do without"
        return MetricResult(share(chances - again, chances), reason)

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Give 1 - repeats among the agent's own calls / opportunities, which may be far below 0."""
        # Seeded calls are not in the trace that the benchmark reads, so it cannot see that they are repeated.
        worked = [(call.tool, _args_text(call.args)) for call in trace.own if call.success]
        again, chances = len(worked) - len(set(worked)), self.reuses
        # Not bounded below: -8 is among the published figures.
        score = 1 - again / chances if chances else 1.0
        details = {
            "reuse_opportunities": chances,
            "redundant_calls": again,
            "non_redundant_calls": chances - again,
            "total_calls": len(trace.own),
            "unique_calls": len(set(worked)),
            "redundant_rate": again / chances if chances else 0.0,
            "non_redundant_rate": score,
        }
        return MetricResult(score, f"{again} repeated calls, {chances} chances to do without", details)


def _args_text(args: Mapping[str, Any] | None) -> str:
    return as_json(args or {}, sorted_keys=True)


RUBRIC = "ko_completed"


@dataclass(frozen=True)
class KoEffScore(JudgedMetricGrader):
    """EffScore: was the task done with no more calls than it needs?"""

    name: ClassVar[str] = "ko_eff_score"
    rubrics: ClassVar = one_rubric(RUBRIC)

    async def default(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give 0 where judges say that the task was not done, else needed calls / calls.

        Seeded calls count on both sides: an agent that uses what they gave needs no call of its own.
        """
        if not trace.answer:
            return MetricResult(0.0, "there is no answer")
        if not panel.judges:
            return no_judge_result()
        values = {
            "task": trace.question or self.instruction or "",
            "conversation": before_the_question(trace),
            "calls": calls_with_results(trace.own),
            "answer": trace.answer,
        }
        done = await panel.score(RUBRIC, values)
        if done.score is None:
            return done
        made, needed = len(trace.calls), self._needed_calls(trace)
        score = (share(needed, made) if made else 1.0) if done.score else 0.0
        counts = f"{made} calls were made, {made - len(trace.own)} of them given; {needed} will do"
        return MetricResult(score, f"{counts}; done: {done.reason}", more=done.more)

    async def upstream(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give 0 where the task was not done or no call was made, else least calls / calls made."""
        made, needed = len(trace.own), self.minimum_calls
        # The evaluator of the benchmark never gets minimum_calls: the distinct golden calls stand for them.
        if needed is None:
            needed = len({(call["tool"], _args_text(call.get("args"))) for call in self.golden_calls}) or 1
        if not panel.judges and made:
            return no_judge_result()
        values = {
            # The first turn, though a later one was answered: its evaluator knows no other.
            "task": self.instruction or trace.instruction,
            "conversation": "",
            "calls": calls_alone(trace.own),
            "answer": trace.response_text,
        }
        # Also where no call was made and the score is 0 whatever they say: its report holds the votes.
        judge_votes = await ask_all_upstream(panel, RUBRIC, values)
        votes = [vote.number == 1 for vote in judge_votes]
        done = majority_upstream(votes)
        reason = f"{sum(votes)} of {len(votes)} judges say that it was done"
        score = min(1.0, needed / made) if done and made else 0.0
        details = {
            "success": done,
            "actual_calls": made,
            "minimum_calls": needed,
            **({"efficiency": score} if done and made else {}),
            "llm_reason": reason,
            "vote_details": {
                "positive": sum(votes),
                "negative": len(votes) - sum(votes),
                "total": len(votes),
            },
            "individual_judges": [
                {"success": vote.number == 1, "reason": vote.reason, **vote.judge_at(place)}
                for place, vote in enumerate(judge_votes, 1)
            ],
        }
        return MetricResult(score, f"{made} calls were made; {needed} will do; {reason}", details)

    def _needed_calls(self, trace: KoTrace) -> int:
        """Count the seeded calls, and the golden calls that no seeded one makes needless."""
        seeded = [call for call in trace.calls if call.seeded]
        needed, available = len(seeded), [(call.tool, call.args) for call in seeded if is_valid(call)]
        for request in _golden_requests(self):
            if not any(equal_calls(request, earlier) for earlier in available):
                available.append(request)
                needed += 1
        return max(needed, self.minimum_calls or 0)


def _golden_requests(task: KoTask) -> list[Call]:
    return [(str(action["tool"]), action.get("args") or {}) for action in task.golden_calls]


def first_failure(task: KoTask, calls: Sequence[KoCall]) -> int:
    """Give the place of the first call that the failure hit; -1 for none."""
    injected = (at for at, call in enumerate(calls) if call.tool == task.injected_tool)
    return next((at for at in injected if is_failure(task, calls, at)), -1)


def is_failure(task: KoTask, calls: Sequence[KoCall], at: int) -> bool:
    """Whether the failure hit a call of the broken tool.

    An error shows it by itself. Half a result (``partial``) is hit whatever it holds, a cut one
    (``malformed``) is text, and an old one (``stale``) was given for other arguments before.
    """
    call = calls[at]
    kind = (task.error_injection or {}).get("error_type")
    if not is_valid(call) or kind == "partial":
        return True
    if kind == "malformed":
        return isinstance(call.result, str)
    return kind == "stale" and any(
        previous.tool == call.tool
        and json_equal(previous.result, call.result)
        and not equal_calls((previous.tool, previous.args), (call.tool, call.args))
        for previous in calls[:at]
    )


def is_repaired(task: KoTask, trace: KoTrace) -> bool:
    """Whether the broken tool worked after all: it never failed, or it worked when it was called again."""
    calls = trace.own
    hit = first_failure(task, calls)
    return any(recovers(task, calls, at, hit) for at in range(len(calls)))


def recovers(task: KoTask, calls: Sequence[KoCall], at: int, hit: int) -> bool:
    """Whether a call of the broken tool worked, made without a failure or after it was known."""
    if calls[at].tool != task.injected_tool or is_failure(task, calls, at):
        return False
    return hit < 0 or (at > hit and not in_same_reply(calls[at], calls[hit]))


def in_same_reply(call: KoCall, other: KoCall) -> bool:
    """Whether two calls were made in one reply: neither knew what came of the other."""
    return call.step is not None and call.step == other.step


class FailureGrader(ComputedGrader):
    """What both metrics of level 5 share: the injected failure, and the calls after it."""

    def without_failure(self, trace: KoTrace) -> MetricResult | None:
        """Give what can be decided where the injected failure was not met; None where it was."""
        if not self.injected_tool:
            return not_applicable("the task injects no failure")
        if first_failure(self, trace.own) >= 0:
            return None
        if any(call.tool == self.injected_tool or self.is_fallback(call) for call in trace.own):
            return not_applicable(f"{self.injected_tool} never failed")
        return MetricResult(0.0, f"neither {self.injected_tool} nor anything in its place was called")

    def gave_up_result(self) -> MetricResult:
        return MetricResult(0.0, f"{self.injected_tool} failed, and nothing else was tried after that")

    @property
    def fallback_tools(self) -> list[str]:
        """The tools to fall back on; the broken one is none, even if it is listed."""
        return [tool for tool in self.fallbacks if tool != self.injected_tool]

    def is_fallback(self, call: KoCall) -> bool:
        """Whether a tool is one to fall back on: a listed one or, where none is listed, any other."""
        return call.tool in self.fallback_tools if self.fallback_tools else call.tool != self.injected_tool

    def upstream_failure(self, calls: Sequence[KoCall]) -> int | None:
        """Give the place of the first call that the benchmark takes for one that the failure hit."""
        hits = (at for at, call in enumerate(calls) if call.tool == self.injected_tool)
        return next((at for at in hits if calls[at].success is False or calls[at].error), None)


def _places_since(calls: Sequence[KoCall], failed: int) -> list[int]:
    """Give the places of the other calls in the failure's reply, and of those after it."""
    places = (at for at in range(len(calls)) if at != failed)
    return [at for at in places if at > failed or in_same_reply(calls[at], calls[failed])]


@dataclass(frozen=True)
class KoAdaptiveRouting(FailureGrader):
    """AdaptiveRoutingScore: how soon after a failure was another tool tried?"""

    name: ClassVar[str] = "ko_adaptive_routing"

    def default(self, trace: KoTrace) -> MetricResult:
        """Give 1 / (1 + calls wasted between the first failure and what was done about it).

        That is a call of another tool, or one of the same tool that worked. Calls in the reply that met the
        failure are not wasted, because its result was not known yet, nor are those in the reply that reacted.
        """
        undecided = self.without_failure(trace)
        if undecided is not None:
            return undecided
        calls, failed = trace.own, first_failure(self, trace.own)
        since = _places_since(calls, failed)
        coped = (at for at in since if self.is_fallback(calls[at]) or recovers(self, calls, at, failed))
        switch = next(coped, None)
        if switch is None:
            return self.gave_up_result()
        ends = (calls[failed], calls[switch])
        between = calls[failed + 1 : switch]
        wasted = sum(not any(in_same_reply(call, end) for end in ends) for call in between)
        return MetricResult(1 / (1 + wasted), f"{calls[switch].tool} was tried after {wasted} other calls")

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Give 1 / (1 + steps between the first failure and the first fallback)."""
        broken, calls, listed = self.injected_tool, trace.own, self.fallbacks
        if not broken:
            return MetricResult(None, "no failure is injected", {"reason": "no failure is injected"})
        failed = self.upstream_failure(calls)
        if failed is None:
            # Only a task without an injected failure is undecided: where none was met, its code gives 0.
            reason = "No tool calls recorded" if not calls else "Injected tool did not fail"
            return MetricResult(0.0, reason, {"reason": reason, "injected_tool": broken})
        # The benchmark takes the broken tool for a fallback where it is listed as one.
        later = range(failed + 1, len(calls))
        fits = (at for at in later if (calls[at].tool in listed if listed else calls[at].tool != broken))
        switch = next(fits, None)
        if switch is None:
            reason = "No fallback attempt after failure"
            step = _steps(calls, failed)[0]
            return MetricResult(
                0.0, reason, {"reason": reason, "failure_step": step, "injected_tool": broken}
            )
        step, other = _steps(calls, failed, switch)
        # A step is a reply. The benchmark offers fallbacks only in a second round, so a reply in words lies
        # between failure and fallback: an agent that sticks to what is offered gets 0.5 at best.
        gap = max(0, other - step - 1)
        details = {
            "failure_step": step,
            "fallback_step": other,
            "fallback_tool": calls[switch].tool,
            "step_gap": gap,
            "injected_tool": broken,
            "fallback_candidates": listed,
        }
        return MetricResult(1 / (1 + gap), f"{gap} steps lie between failure and fallback", details)


def _steps(calls: Sequence[KoCall], *places: int) -> list[int]:
    """Give the steps of calls as numbers; their places in the list where one step is no number."""
    # As its code does: steps are converted by int(), and places stand for all where one cannot be.
    steps: list[Any] = [calls[place].step for place in places]
    try:
        return [int(step) for step in steps]
    except (TypeError, ValueError):
        return list(places)


@dataclass(frozen=True)
class KoFallbackSr(FailureGrader):
    """FallbackSR: which share of the fallback calls worked?"""

    name: ClassVar[str] = "ko_fallback_sr"

    def default(self, trace: KoTrace) -> MetricResult:
        """Look only at the fallback calls after the failure."""
        if not self.fallback_tools:
            return not_applicable("the task names no tool to fall back on")
        undecided = self.without_failure(trace)
        if undecided is not None:
            return undecided
        calls = trace.own
        later = [calls[at] for at in _places_since(calls, first_failure(self, calls))]
        attempts = [call for call in later if call.tool in self.fallback_tools]
        if not attempts and is_repaired(self, trace):
            return not_applicable(f"{self.injected_tool} worked when it was tried again")
        if not attempts:
            return self.gave_up_result()
        good = sum(map(is_valid, attempts))
        return MetricResult(share(good, len(attempts)), f"{good} of {len(attempts)} fallback calls worked")

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Give the share of all fallback calls that are marked as successful; 0 without a failure."""
        # Routing is undecided without a failure, and this metric is 0: so it is in its code.
        if not self.injected_tool:
            return MetricResult(0.0, "no failure is injected", {"reason": "No error injection"})
        if not self.fallbacks:
            reason = "the task names no tool to fall back on"
            return MetricResult(None, reason, {"reason": "No fallback tools"})
        if self.upstream_failure(trace.own) is None:
            reason = "the injected tool did not fail"
            return MetricResult(0.0, reason, {"reason": "Injected tool did not fail"})
        # Unlike by default, calls before the failure count, too.
        attempts = [call for call in trace.own if call.tool in self.fallback_tools]
        if not attempts:
            return MetricResult(0.0, "no fallback was tried", {"reason": "No fallback attempts"})
        good = sum(call.success is True and not call.error for call in attempts)
        details = {
            "injected_tool": self.injected_tool,
            "injected_tool_failed": True,
            "fallback_attempts": len(attempts),
            "fallback_successes": good,
            "fallback_tools": self.fallback_tools,
        }
        return MetricResult(good / len(attempts), f"{good} of {len(attempts)} fallback calls worked", details)

"""The metrics that every level has: SR, EPR_CVR, pass@k share and RRR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_agenteval.benchmarks.ko_agentbench.graders.efficiency import is_repaired
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetricGrader,
    JudgePanel,
    ask_upstream,
    before_the_question,
    calls_alone,
    calls_with_results,
    facts,
    majority_upstream,
    no_judge_result,
    own_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    ComputedGrader,
    KoTrace,
    MetricResult,
    is_valid,
    not_applicable,
    share,
)
from pytest_agenteval.records.evidence import ROUNDING


@dataclass(frozen=True)
class KoValidCalls(ComputedGrader):
    """EPR_CVR: which share of the agent's calls worked?"""

    name: ClassVar[str] = "ko_valid_calls"

    def default(self, trace: KoTrace) -> MetricResult:
        """Count a result that is an error as a failed call, and leave out failures of the broken tool."""
        # The failures of the tool that the task breaks are not the agent's.
        counted = [call for call in trace.own if is_valid(call) or call.tool != self.injected_tool]
        if not counted:
            return not_applicable("no call was made that could have worked")
        good = sum(map(is_valid, counted))
        return MetricResult(share(good, len(counted)), f"{good} of {len(counted)} calls worked")

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Give the share of calls that are marked as successful and have no error; 0 without calls."""
        good, made = sum(call.worked for call in trace.own), len(trace.own)
        details = {"total_calls": made, "valid_calls": good}
        # Without calls it is 0, so that here an agent that needs no call
        # gets nothing. Errors in the place of a result count as valid.
        return MetricResult(good / made if made else 0.0, f"{good} of {made} calls are valid", details)


@dataclass(frozen=True)
class KoResponseRate(ComputedGrader):
    """RRR: was there an answer?"""

    name: ClassVar[str] = "ko_response_rate"
    threshold: ClassVar[float] = 1.0

    def default(self, trace: KoTrace) -> MetricResult:
        answered = bool(trace.answer)
        return MetricResult(float(answered), "there is an answer" if answered else "there is no answer")

    def upstream(self, trace: KoTrace) -> MetricResult:
        """Give the technical flag, for which an empty answer counts as an answer."""
        verb = "is" if trace.success else "is not"
        return MetricResult(float(bool(trace.success)), f"the run {verb} marked as successful")


ASKS = 3
SUCCESS_RUBRIC, VOTE_RUBRIC = "ko_success", "ko_success_vote"


@dataclass(frozen=True)
class KoSuccess(JudgedMetricGrader):
    """SR: did the agent do what the task wants?"""

    name: ClassVar[str] = "ko_success"
    threshold: ClassVar[float] = 1.0
    rubrics: ClassVar = {"default": SUCCESS_RUBRIC, "upstream": VOTE_RUBRIC}

    async def default(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give the judges' score, from 1 to 5; 0 where there is no answer, or no fallback was tried."""
        # One task of level 5 does not state its level; that something is made to fail says it as well.
        robustness = _is_five(self.task_level) or _is_five(trace.level) or bool(self.injected_tool)
        if robustness and self._lacks_fallback(trace) and not is_repaired(self, trace):
            reason = f"none of the tools to fall back on was called: {', '.join(self.fallbacks)}"
            return MetricResult(0.0, reason)
        if not trace.answer:
            return MetricResult(0.0, "there is no answer")
        values = {
            "task": trace.question or self.instruction or "",
            "conversation": before_the_question(trace),
            "calls": calls_with_results(trace.own),
            "facts": facts(self, trace),
            "answer": trace.answer,
        }
        known = panel.can_tell(SUCCESS_RUBRIC, values)
        return await panel.score(SUCCESS_RUBRIC, values) if known else no_judge_result()

    async def upstream(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Call the first judge three times; the majority of its votes decides."""
        level = trace.level if self.task_level is None else self.task_level
        # Of a task without a level the log has 0: the benchmark lets it through without a fallback.
        if _is_five(level) and self._lacks_fallback(trace):
            return _vote_result([], ["no tool to fall back on was called"])
        # Counted in characters: of Hangul, one letter has three bytes.
        if len(trace.response_text.strip()) < 3:
            return _vote_result([], ["the answer is empty or too short"])
        if not panel.judges:
            return no_judge_result()
        values = {
            "task": self.instruction or trace.instruction,
            # No results: the benchmark means to show the golden fields, but they never reach its evaluator.
            "calls": calls_alone(trace.own),
            "answer": trace.response_text,
        }
        rubric = own_rubric(VOTE_RUBRIC)
        messages = rubric.messages(values)
        # The README of the benchmark describes a score of 1 to
        # 5; its code takes three yes-or-no votes of one judge.
        replies = [await ask_upstream(panel.judges[0], rubric, messages) for _ in range(ASKS)]
        # A judge that fails has no number, and so counts as a no.
        return _vote_result([reply.number == 1 for reply in replies], [reply.reason for reply in replies])

    def _lacks_fallback(self, trace: KoTrace) -> bool:
        called = {call.tool for call in trace.own}
        return bool(self.fallbacks) and called.isdisjoint(self.fallbacks)


def _is_five(level: Any) -> bool:
    if isinstance(level, str):
        return level.strip().upper() in ("5", "L5")
    return bool(level == 5 and not isinstance(level, bool))


def _vote_result(votes: list[bool], reasons: list[str]) -> MetricResult:
    """Count the votes; without any, the trial failed for the one reason, and nobody was called."""
    done, yes = majority_upstream(votes), sum(votes)
    reason = f"{yes} of {len(votes)} votes say that it was done" if votes else reasons[0]
    details = {
        "success": done,
        "votes": votes,
        "vote_count": {"success": yes, "fail": len(votes) - yes},
        "reasons": reasons,
        "final_reason": reason,
    }
    return MetricResult(float(done), reason, details)


@dataclass(frozen=True)
class KoRepeatShare(KoSuccess):
    """pass@k share: which share of the repetitions succeeded?"""

    name: ClassVar[str] = "ko_repeat_share"
    threshold: ClassVar[float] = 0.0
    rubrics: ClassVar = {"default": SUCCESS_RUBRIC}

    async def default(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give 1 where this repetition succeeded, which is an SR of 1, else 0.

        Each repetition is a trial of its own, and reports put them together. A log holds only a flag of its
        further repetitions, which says nothing of success.
        """
        judged = await super().default(trace, panel)
        if judged.score is None:
            return judged
        # The mean of several full marks may lie a rounding below 1.
        done = judged.score >= 1 - ROUNDING
        return MetricResult(float(done), f"{'succeeded' if done else 'did not succeed'}: SR {judged.reason}")

    async def upstream(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give the mean of the technical flag over the repetitions."""
        flags = trace.repetition_results or (trace.success,)
        good = sum(map(bool, flags))
        details = {
            "repetitions": len(flags) if trace.repetitions is None else trace.repetitions,
            "actual_repetitions": len(flags),
            "success_count": good,
        }
        reason = f"{good} of {len(flags)} repetitions are marked as successful"
        return MetricResult(good / len(flags), reason, details)

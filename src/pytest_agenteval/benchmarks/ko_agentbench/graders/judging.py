"""Metrics that judges decide: success, and what an answer keeps of the conversation (L7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pytest_agenteval import (
    ABSENT,
    ChatMessage,
    Evidence,
    Grade,
    Judge,
    ProviderDown,
    Rubric,
    RubricGrader,
    ask_judges,
    cut_middle,
    join_within,
    judgement_details,
    no_judge_grade,
    parse_path,
    read_rubric_file,
    value_at,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    KoCall,
    KoGrader,
    KoMessage,
    KoTrace,
    MetricResult,
    UpstreamError,
    is_valid,
    not_applicable,
    trace_of,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import Combine, KoTask, as_json
from pytest_agenteval.graders.judge.judge_grader import format_score
from pytest_agenteval.graders.judge.panel import ask_judge, gather_all, note_shown
from pytest_agenteval.graders.judge.verdicts import parse_reasoned_reply
from pytest_agenteval.records.evidence import ROUNDING
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.text.json_values import json_digest

MAX_RESULT_CHARS = 3_000
# Shorter than what people may say: a long result must take no room from the conversation that is judged.
MAX_TOOL_TURN_CHARS = 600

_ROLES = {"user": "사용자", "assistant": "비서", "tool": "도구 결과"}


def value_text(value: Any) -> str:
    """Write a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else as_json(value)


def calls_with_results(calls: Sequence[KoCall]) -> str:
    return join_within(f"{at}. {_call_text(call)}\n{_result_text(call)}" for at, call in enumerate(calls, 1))


def calls_alone(calls: Sequence[KoCall]) -> str:
    """Write calls without their results, each marked as successful or failed."""
    outcomes = (f"{_call_text(call)}: {'성공' if call.success else '실패'}" for call in calls)
    return join_within(f"{number}. {text}" for number, text in enumerate(outcomes, 1))


def facts(task: KoTask, trace: KoTrace) -> str:
    """Write the golden fields: what stands in results at the paths that the task names for a tool."""
    lines = []
    for golden in task.golden_fields or ():
        for call in (call for call in trace.calls if call.tool == golden["tool"] and is_valid(call)):
            for path in golden["fields"]:
                value = value_at(call.result, parse_path(path))
                if value is not ABSENT:
                    lines.append(f"{call.tool} {path}: {cut_middle(value_text(value), MAX_TOOL_TURN_CHARS)}")
    return join_within(lines, "\n")


def conversation(messages: Sequence[KoMessage] | None) -> str:
    """Write a conversation with numbered messages, in which seeded ones are marked."""
    turns = []
    for number, message in enumerate(messages or (), 1):
        if message.content:
            most = MAX_TOOL_TURN_CHARS if message.role == "tool" else 4_000
            seeded_mark = " (주어짐)" if message.seeded and message.role != "user" else ""
            # Further lines are indented, so that no line of an answer looks like the turn of somebody else.
            text = "\n    ".join(cut_middle(message.content, most).splitlines())
            turns.append(f"[{number}] {_ROLES.get(message.role, message.role)}{seeded_mark}: {text}")
    return join_within(turns, "\n")


def before_the_question(trace: KoTrace) -> str:
    """Write the conversation before the last question; empty where it was the first."""
    messages = trace.messages or ()
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    return conversation(messages[: users[-1]]) if users else ""


def conversation_upstream(messages: Sequence[KoMessage]) -> tuple[str, int]:
    """Write a conversation as the benchmark shows it, and give how many messages that shows.

    Messages of tools are left out but counted, those of the assistant are cut, and nothing marks seeded ones.
    """
    turns = []
    for number, message in enumerate(messages, 1):
        if message.role == "user":
            turns.append(f"[{number}] {_ROLES['user']}: {message.content}")
        elif message.role == "assistant":
            if message.content is None:
                # Its code slices the text, which throws where there is none.
                raise UpstreamError("an assistant's message has no text, and it cuts the text")
            # The benchmark cuts at 500 characters, whatever their script.
            turns.append(f"[{number}] {_ROLES['assistant']}: {message.content[:500]}")
    return join_within(turns, "\n"), len(turns)


def _call_text(call: KoCall) -> str:
    seeded_mark = " (주어짐)" if call.seeded else ""
    return f"{call.tool}({cut_middle(value_text(dict(call.args)), MAX_RESULT_CHARS)}){seeded_mark}"


def _result_text(call: KoCall) -> str:
    if not call.worked:
        return f"실패: {call.error or ''}"
    return f"결과: {cut_middle(value_text(call.result), MAX_RESULT_CHARS)}"


# The lowest score of a scale upstream, which a judge that failed is taken to give.
LOWEST = 1
RUBRICS = Path(__file__).parent.parent / "rubrics"


@dataclass(frozen=True, slots=True)
class JudgePanel:
    """The judges that may be called, and how their scores become one."""

    judges: tuple[Judge, ...] = ()
    combine: Combine = "mean"
    notes: MutableMapping[str, Any] = field(default_factory=dict, repr=False)

    def can_tell(self, rubric: str, values: Mapping[str, str]) -> bool:
        """Whether there is a judge, or one has answered this for another grader."""
        return bool(self.judges) or self._note(rubric, values) in self.notes

    async def score(self, rubric: str, values: Mapping[str, str]) -> MetricResult:
        """Call every judge, once for all graders of the trial that want to know the same."""
        note = self._note(rubric, values)
        # Noted before it is awaited: the graders of a trial run side by side, and the second one waits for
        # the reply to the first one's request instead of sending it again.
        pending = self.notes.get(note)
        if pending is None:
            pending = self.notes[note] = asyncio.ensure_future(self._panel_score(rubric, values))
        result: MetricResult = await pending
        return result

    def _note(self, rubric: str, values: Mapping[str, str]) -> str:
        return json_digest([rubric, self.combine, dict(values)])

    async def _panel_score(self, rubric: str, values: Mapping[str, str]) -> MetricResult:
        """Call every judge; one that cannot be reached or read is left out, and named."""
        rubric_used = own_rubric(rubric)
        # Rubrics that take a yes or no need a majority; `combine` is a choice for scores only.
        if rubric_used.combine != "majority":
            rubric_used = replace(rubric_used, combine=self.combine)
        # One judge out of reach is left out and named: the trial breaks only where no other one could tell.
        judgement = await ask_judges(rubric_used, values, self.judges, skip_unreachable=True)
        failed = [f"{vote.judge}: {vote.problem}" for vote in judgement.votes if vote.problem]
        more = {**judgement_details(judgement), **({"failed_judges": failed} if failed else {})}
        score = judgement.score
        return MetricResult(score, f"{format_score(score)}: {judgement.rationale}", more=more)


class UpstreamVote(FrozenValue, frozen=True):
    """One judge's verdict as the benchmark takes it: a whole number of the scale, or None for a failure."""

    judge: str
    number: int | None
    reason: str

    def judge_at(self, place: int) -> dict[str, Any]:
        """Give the judge as the benchmark's report names it."""
        return {"judge_id": place, "judge_model": self.judge}


async def ask_upstream(judge: Judge, rubric: Rubric, messages: Sequence[ChatMessage]) -> UpstreamVote:
    """Call a judge once; a reply that is missing, unreadable, off the scale or has no reason is a failure."""
    read = partial(parse_reasoned_reply, rubric=rubric)
    try:
        # The benchmark takes the first reply as it is.
        verdict, _, problem = await ask_judge(judge, rubric, messages, rubric.schema(), read, repair=False)
    except ProviderDown as unreachable:
        return UpstreamVote(judge.model.id, None, str(unreachable))
    if verdict is None:
        return UpstreamVote(judge.model.id, None, problem)
    score = verdict.scores[rubric.names[0]]
    number = None
    if score is not None:
        # A reply off the scale, or between its numbers, fails the validation of the benchmark.
        on_scale = rubric.low + score * (rubric.high - rubric.low)
        number = round(on_scale) if abs(on_scale - round(on_scale)) < ROUNDING else None
    return UpstreamVote(judge.model.id, number, verdict.rationale)


def own_rubric(name: str) -> Rubric:
    return read_rubric_file(RUBRICS / f"{name}.jinja")


async def ask_all_upstream(panel: JudgePanel, rubric: str, values: Mapping[str, str]) -> list[UpstreamVote]:
    rubric_used = own_rubric(rubric)
    messages = rubric_used.messages(values)
    note_shown(panel.judges, rubric_used, values)
    return await gather_all(ask_upstream(judge, rubric_used, messages) for judge in panel.judges)


def mean_upstream(votes: Sequence[UpstreamVote]) -> tuple[float, int, float]:
    """Give the mean of 1 to 5, that mean rounded half to even, and the score from 0 to 1.

    A failed judge counts as the lowest; without votes all three are 0.
    """
    if not votes:
        return 0.0, 0, 0.0
    numbers = [LOWEST if vote.number is None else vote.number for vote in votes]
    mean = sum(numbers) / len(numbers)
    # round() takes halves to the even number, as its code does: 4.5 becomes 4, and 3.5 becomes 4, too.
    return mean, round(mean), max(0.0, (round(mean) - 1) / 4)


def majority_upstream(votes: Sequence[bool]) -> bool:
    """Whether more than half of the votes are yes; without votes, no."""
    return 2 * sum(votes) > len(votes)


def no_judge_result() -> MetricResult:
    undecided = no_judge_grade("")
    return MetricResult(None, undecided.rationale, undecided=undecided.undecided)


@dataclass(frozen=True)
class JudgedMetricGrader(KoGrader, RubricGrader):
    """A grader of a metric that calls judges: a method for each mode works it out.

    A mode that calls no judge has no rubric in ``rubrics``.
    """

    rubrics: ClassVar[Mapping[str, str]]

    async def default(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        raise NotImplementedError

    async def upstream(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        raise NotImplementedError

    async def result(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Work the metric out in the grader's mode."""
        try:
            count = self.default if self.mode == "default" else self.upstream
            return await count(trace, panel)
        except UpstreamError as raised:
            return raised.result()

    def used_rubric(self) -> Rubric | None:
        rubric = self.rubrics.get(self.mode)
        return own_rubric(rubric) if rubric else None

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        panel = JudgePanel(tuple(judges), self.combine, evidence.notes)
        return (await self.result(trace_of(evidence), panel)).grade(self.name)


def one_rubric(rubric: str) -> Mapping[str, str]:
    return {"default": rubric, "upstream": rubric}


@dataclass(frozen=True)
class KoContextRetention(JudgedMetricGrader):
    """ContextRetention: does the answer use what came earlier?"""

    name: ClassVar[str] = "ko_context_retention"
    rubrics: ClassVar = one_rubric("ko_context_retention")

    async def default(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give what judges say of the last answer, in a conversation that had something before it."""
        if sum(message.role == "user" for message in trace.messages or ()) < 2:
            return not_applicable("nothing was said before the question")
        if not trace.answer:
            return MetricResult(0.0, "there is no answer")
        if not panel.judges:
            return no_judge_result()
        values = {"conversation": conversation(trace.messages), "answer": trace.answer}
        return await panel.score(self.rubrics["default"], values)

    async def upstream(self, trace: KoTrace, panel: JudgePanel) -> MetricResult:
        """Give the rounded mean of the judges' scores of a conversation; 0 where the log holds none."""
        # An empty conversation is judged all the same: only a missing one is 0 by itself.
        if trace.messages is None:
            return MetricResult(0.0, "the log holds no conversation", {})
        text, turns_shown = conversation_upstream(trace.messages)
        if not panel.judges:
            return no_judge_result()
        values = {"conversation": text, "answer": trace.response_text}
        votes = await ask_all_upstream(panel, self.rubrics["upstream"], values)
        mean, rounded, score = mean_upstream(votes)
        reason = f"the mean of {len(votes)} judges is {mean:.2f}"
        details = {
            "raw_score": rounded,
            "normalized_score": score,
            "average_score": mean,
            "reason": reason,
            "total_messages": len(trace.messages),
            "evaluated_messages": turns_shown,
            "individual_judges": [
                {
                    "score": LOWEST if vote.number is None else vote.number,
                    "reason": vote.reason,
                    **vote.judge_at(place),
                }
                for place, vote in enumerate(votes, 1)
            ],
        }
        return MetricResult(score, f"{reason} of 5", details)


@dataclass(frozen=True)
class KoRefRecall(KoContextRetention):
    """RefRecall: does the answer recall rightly what the user points back to?"""

    name: ClassVar[str] = "ko_ref_recall"
    rubrics: ClassVar = one_rubric("ko_ref_recall")

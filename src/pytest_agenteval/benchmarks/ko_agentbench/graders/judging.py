"""Asking judges for the Korean metrics: as we do, and as the benchmark does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pytest_agenteval import (
    ChatMessage,
    Evidence,
    Grade,
    Judge,
    ProviderDown,
    RubricGrader,
    ask_judges,
    judgement_details,
    no_judge_grade,
    read_rubric_file,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.metric import (
    KoGrader,
    MetricResult,
    UpstreamError,
    upstream_error_result,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.task import Combine, KoTask, Mode
from pytest_agenteval.benchmarks.ko_agentbench.graders.trace import KoTrace, trace_of
from pytest_agenteval.canonical import digest
from pytest_agenteval.graders.judge.grader import format_score
from pytest_agenteval.graders.judge.panel import ask_judge, gather_all
from pytest_agenteval.graders.judge.prompt import RATIONALE, Rubric
from pytest_agenteval.graders.judge.reply_parser import parse_reasoned_reply
from pytest_agenteval.records.record import FrozenValue

ROUNDING = 1e-9
UPSTREAM_LOWEST = 1

RUBRICS = Path(__file__).parent.parent / "rubrics"


@dataclass(frozen=True, slots=True)
class JudgePanel:
    """The judges that may be asked, and how their scores become one."""

    judges: tuple[Judge, ...] = ()
    combine: Combine = "mean"
    notes: MutableMapping[str, Any] = field(default_factory=dict, repr=False)

    def can_tell(self, rubric: str, values: Mapping[str, str]) -> bool:
        """Whether somebody is there to ask, or was asked this for another grader."""
        return bool(self.judges) or self._note(rubric, values) in self.notes

    async def score(self, rubric: str, values: Mapping[str, str]) -> MetricResult:
        """Ask every judge, once for all graders of the trial that want to know the same."""
        note = self._note(rubric, values)
        asking = self.notes.get(note)
        if asking is None:
            asking = self.notes[note] = asyncio.ensure_future(self._panel_score(rubric, values))
        found: MetricResult = await asking
        return found

    def _note(self, rubric: str, values: Mapping[str, str]) -> str:
        return digest([rubric, self.combine, dict(values)])

    async def _panel_score(self, rubric: str, values: Mapping[str, str]) -> MetricResult:
        """Ask every judge; who cannot be reached or read is left out, and named."""
        made = own_rubric(rubric)
        if made.combine != "majority":
            made = replace(made, combine=self.combine)
        judgement = await ask_judges(made, values, self.judges, skip_unreachable=True)
        failed = [f"{vote.judge}: {vote.problem}" for vote in judgement.votes if vote.problem]
        more = {**judgement_details(judgement), **({"failed_judges": failed} if failed else {})}
        score = judgement.score
        return MetricResult(score, f"{format_score(score)}: {judgement.rationale}", more=more)


class UpstreamVote(FrozenValue, frozen=True):
    """What one judge said, as the benchmark takes it: a whole number of the scale, or None for a failure."""

    judge: str
    number: int | None
    reason: str


async def ask_upstream(judge: Judge, rubric: Rubric, messages: Sequence[ChatMessage]) -> UpstreamVote:
    """Ask a judge once; no answer, or one unreadable, without a reason or beside the scale, is a failure."""
    read = partial(parse_reasoned_reply, rubric=rubric)
    try:
        found, _, problem = await ask_judge(judge, rubric, messages, rubric.schema(), read, repair=False)
    except ProviderDown as unreachable:
        return UpstreamVote(judge.model.id, None, str(unreachable))
    if found is None:
        return UpstreamVote(judge.model.id, None, problem)
    score = found.scores[rubric.names[0]]
    return UpstreamVote(judge.model.id, _whole_number(score, rubric), found.rationale)


def own_rubric(name: str) -> Rubric:
    """Read a rubric of this benchmark."""
    return read_rubric_file(RUBRICS / f"{name}.jinja")


async def ask_all_upstream(panel: JudgePanel, rubric: str, values: Mapping[str, str]) -> list[UpstreamVote]:
    """Ask every judge once, side by side."""
    made = own_rubric(rubric)
    messages = made.messages(values)
    return await gather_all(ask_upstream(judge, made, messages) for judge in panel.judges)


def _whole_number(score: float | None, rubric: Rubric) -> int | None:
    if score is None:
        return None
    number = rubric.low + score * (rubric.high - rubric.low)
    return round(number) if abs(number - round(number)) < ROUNDING else None


def mean_upstream(said: Sequence[UpstreamVote]) -> tuple[float, int, float]:
    """Give the mean of 1 to 5, that mean rounded half to even, and the score from 0 to 1; all 0 for nobody.

    A failed judge counts as the lowest.
    """
    if not said:
        return 0.0, 0, 0.0
    numbers = [UPSTREAM_LOWEST if one.number is None else one.number for one in said]
    mean = sum(numbers) / len(numbers)
    return mean, round(mean), max(0.0, (round(mean) - 1) / 4)


def majority_upstream(votes: Sequence[bool]) -> bool:
    """Tell whether more than half say yes; nobody says no."""
    return 2 * sum(votes) > len(votes)


def no_judge_result() -> MetricResult:
    """Give what can be said where nobody is there to judge."""
    said = no_judge_grade("")
    return MetricResult(None, said.rationale, undecided=said.undecided)


JudgedFunction: TypeAlias = Callable[[KoTask, KoTrace, JudgePanel], Awaitable[MetricResult]]


class JudgedMetric(FrozenValue, frozen=True):
    """A metric that needs judges: its label, both ways to work it out, and what judges are asked in each.

    A mode in which no judge is asked has no rubric.
    """

    label: str
    default: JudgedFunction
    upstream: JudgedFunction
    rubrics: Mapping[Mode, str]

    async def of(self, task: KoTask, trace: KoTrace, mode: Mode, panel: JudgePanel) -> MetricResult:
        """Work it out in this mode."""
        if mode == "default":
            return await self.default(task, trace, panel)
        try:
            return await self.upstream(task, trace, panel)
        except UpstreamError as raised:
            return upstream_error_result(raised)

    def reply(self, verdict: bool | float, reason: str = "") -> str:
        """Write the reply that is taken as this verdict in mode ``upstream``."""
        number = int(verdict) if isinstance(verdict, bool) else verdict
        dimension = own_rubric(self.rubrics["upstream"]).names[0]
        return json.dumps({dimension: number, RATIONALE: reason}, ensure_ascii=False)


@dataclass(frozen=True)
class JudgedMetricGrader(KoGrader, RubricGrader):
    """A grader of a metric that asks judges."""

    metric: ClassVar[JudgedMetric]

    def used_rubric(self) -> Rubric | None:
        """Give the rubric of this mode; None where it asks nobody."""
        rubric = self.metric.rubrics.get(self.mode)
        return own_rubric(rubric) if rubric else None

    async def judged(self, evidence: Evidence, judges: Sequence[Judge]) -> Grade:
        """Ask these judges, where there is something to ask."""
        panel = JudgePanel(tuple(judges), self.combine, evidence.notes)
        result = await self.metric.of(self, trace_of(evidence), self.mode, panel)
        return result.grade(self.name)


def one_rubric(rubric: str) -> Mapping[Mode, str]:
    """Ask by one rubric in both modes."""
    return {"default": rubric, "upstream": rubric}

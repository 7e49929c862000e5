"""Published verdicts, replayed: judges that say again what a report says they said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_agenteval import ChatMessage, ChatSettings, Model, ProviderDown, Recorder, Reply, ToolSpec, Usage
from pytest_agenteval.benchmarks.ko_agentbench.graders.arguments import KoArgAcc
from pytest_agenteval.benchmarks.ko_agentbench.graders.common_metrics import KoSuccess
from pytest_agenteval.benchmarks.ko_agentbench.graders.context import KoContextRetention, KoRefRecall
from pytest_agenteval.benchmarks.ko_agentbench.graders.efficiency import KoEffScore
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import JudgedMetric
from pytest_agenteval.chat.recording_chat import JudgeChat

JUDGED_METRICS: dict[str, JudgedMetric] = {
    grader.metric.label: grader.metric
    for grader in (KoSuccess, KoArgAcc, KoEffScore, KoContextRetention, KoRefRecall)
}


def verdict_text(metric_label: str, verdict: bool | float, reason: str = "") -> str:
    """Write a judge's reply that mode ``upstream`` takes as exactly this verdict.

    SR and EffScore take a truth value, the others a whole number from 1 to 5; anything else is written all
    the same, and is a failed reply.
    """
    return JUDGED_METRICS[metric_label].reply(verdict, reason)


SUCCESS, SCORED, AVERAGED = "SR", "ArgAcc", ("ContextRetention", "RefRecall")
JUDGED = (SUCCESS, SCORED, "EffScore", *AVERAGED)
NO_REASON = "no reason was published"
_SETTINGS = ChatSettings()

Verdict = tuple[bool | int, str]


@dataclass(slots=True)
class VerdictReplay:
    """A chat that gives published verdicts, one for each ask, and costs nothing."""

    label: str
    verdicts: Sequence[Verdict]
    asked: int = 0

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = _SETTINGS,
    ) -> Reply:
        """Give the next verdict; raises ProviderDown where none was published."""
        if self.asked >= len(self.verdicts):
            raise ProviderDown(f"the report holds {len(self.verdicts)} verdicts for {self.label}")
        verdict, reason = self.verdicts[self.asked]
        self.asked += 1
        return Reply(verdict_text(self.label, verdict, reason), usage=Usage(), taped=True)


@dataclass(frozen=True, slots=True)
class PublishedJudge:
    """A judge of a published report."""

    model: Model
    chat: JudgeChat = field(repr=False)


def published_judges(
    label: str, metrics: Mapping[str, Any] | None, judge: str, asked: Recorder
) -> tuple[PublishedJudge, ...]:
    """Give the judges that a metric was judged by, by a task's published metrics; none without a report."""
    if metrics is None or label not in JUDGED:
        return ()
    details = (metrics.get(label) or {}).get("details") or {}
    model = Model(judge, judge)
    # As when trials are judged here, so that they can be graded again without anybody being asked.
    role = f"{judge} for {label}"
    replays = (VerdictReplay(label, one) for one in _verdicts(label, details))
    return tuple(PublishedJudge(model, JudgeChat(one, recorder=asked, role=role)) for one in replays)


def _verdicts(label: str, details: Mapping[str, Any]) -> list[Sequence[Verdict]]:
    """Give what each judge said: of the success metric one judge was asked several times."""
    if label == SUCCESS:
        return [tuple(_votes(details))]
    if label == SCORED:
        return [tuple(_score(details))]
    found = [each for each in details.get("individual_judges") or () if isinstance(each, Mapping)]
    key = "score" if label in AVERAGED else "success"
    return [((each[key], _reason(each)),) for each in found if each.get(key) is not None] or [()]


def _votes(details: Mapping[str, Any]) -> Iterator[Verdict]:
    reasons = list(details.get("reasons") or ())
    for place, vote in enumerate(details.get("votes") or ()):
        yield bool(vote), str(reasons[place]) if place < len(reasons) else NO_REASON


def _score(details: Mapping[str, Any]) -> Iterator[Verdict]:
    """Give the score from 1 to 5 that the published share was made of."""
    share = details.get("llm_judge_score")
    if isinstance(share, int | float):
        yield round(share * 4) + 1, _reason(details)


def _reason(details: Mapping[str, Any]) -> str:
    return str(details.get("reason") or details.get("llm_reason") or NO_REASON)

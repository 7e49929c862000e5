"""A logged result as a finished trial, graded by our own graders as the benchmark's code grades.

Published verdicts take the judges' place: each chat repeats what a report says that its judge replied.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval import (
    ChatMessage,
    ChatSettings,
    Digests,
    Ending,
    Event,
    Evidence,
    Grade,
    Grader,
    Model,
    ProviderDown,
    Recorder,
    Registry,
    Reply,
    ToolSpec,
    Trial,
    TrialKey,
    Usage,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders import GROUPS
from pytest_agenteval.benchmarks.ko_agentbench.graders.common_metrics import KoSuccess
from pytest_agenteval.benchmarks.ko_agentbench.graders.efficiency import KoEffScore
from pytest_agenteval.benchmarks.ko_agentbench.graders.judging import (
    JudgedMetricGrader,
    KoContextRetention,
    KoRefRecall,
    own_rubric,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders.tool_calls import KoArgAcc
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import SourceTask
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import (
    EVALUATED_KEYS,
    LoggedResult,
    LoggedRun,
    Report,
    outcome_of,
    task_input,
    transcript_of,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.suite import AGENT, KIND, NAME, task_file
from pytest_agenteval.chat.recording_chat import JudgeChat
from pytest_agenteval.compare.scoring.aggregates import trial_score
from pytest_agenteval.engine.digests import versioned_digest
from pytest_agenteval.graders.grader import asks_judges, trait_of
from pytest_agenteval.graders.judge.rubric import RATIONALE
from pytest_agenteval.text.json_values import json_digest


def verdict_text(label: str, verdict: bool | float, reason: str = "") -> str:
    """Write a judge's reply that mode ``upstream`` takes as exactly this verdict.

    SR and EffScore take a truth value, the others a whole number from 1 to 5; anything else is written all
    the same, and is a failed reply.
    """
    number = int(verdict) if isinstance(verdict, bool) else verdict
    dimension = own_rubric(JUDGED[label].rubrics["upstream"]).names[0]
    return json.dumps({dimension: number, RATIONALE: reason}, ensure_ascii=False)


# The metrics that call judges upstream, by their labels in reports.
JUDGED: Mapping[str, type[JudgedMetricGrader]] = {
    "SR": KoSuccess,
    "ArgAcc": KoArgAcc,
    "EffScore": KoEffScore,
    "ContextRetention": KoContextRetention,
    "RefRecall": KoRefRecall,
}
NO_REASON = "no reason was published"
_SETTINGS = ChatSettings()

Verdict = tuple[bool | int, str]


@dataclass(slots=True)
class VerdictReplay:
    """A chat that gives published verdicts, one for each request, and costs nothing."""

    label: str
    verdicts: Sequence[Verdict]
    given: int = 0

    async def ask(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        response_schema: Mapping[str, Any] | None = None,
        settings: ChatSettings = _SETTINGS,
    ) -> Reply:
        """Give the next verdict; raises ProviderDown where none was published."""
        if self.given >= len(self.verdicts):
            raise ProviderDown(f"the report holds {len(self.verdicts)} verdicts for {self.label}")
        verdict, reason = self.verdicts[self.given]
        self.given += 1
        return Reply(verdict_text(self.label, verdict, reason), usage=Usage(), taped=True)


@dataclass(frozen=True, slots=True)
class PublishedJudge:
    """A judge of a published report."""

    model: Model
    chat: JudgeChat = field(repr=False)


def published_judges(
    label: str, metrics: Mapping[str, Any] | None, judge: str, recorder: Recorder
) -> tuple[PublishedJudge, ...]:
    """Give the judges that a metric was judged by, by a task's published metrics; none without a report."""
    if metrics is None or label not in JUDGED:
        return ()
    details = (metrics.get(label) or {}).get("details") or {}
    # Recorded as when trials are judged here, so that they can be graded again without sending a request.
    role, model = f"{judge} for {label}", Model(judge, judge)
    replays = (VerdictReplay(label, verdicts) for verdicts in _verdicts(label, details))
    return tuple(PublishedJudge(model, JudgeChat(replay, recorder=recorder, role=role)) for replay in replays)


def _verdicts(label: str, details: Mapping[str, Any]) -> list[Sequence[Verdict]]:
    """Give the verdicts of each judge: for the success metric one judge voted several times."""
    if label == "SR":
        reasons = list(details.get("reasons") or ())
        votes = enumerate(details.get("votes") or ())
        return [[(bool(vote), str(reasons[at]) if at < len(reasons) else NO_REASON) for at, vote in votes]]
    if label == "ArgAcc":
        share = details.get("llm_judge_score")
        # The published share was made of a score from 1 to 5 by (score - 1) / 4.
        return [[(round(share * 4) + 1, _reason(details))] if isinstance(share, int | float) else []]
    judges = [judge for judge in details.get("individual_judges") or () if isinstance(judge, Mapping)]
    key = "success" if label == "EffScore" else "score"
    return [((judge[key], _reason(judge)),) for judge in judges if judge.get(key) is not None] or [()]


def _reason(details: Mapping[str, Any]) -> str:
    return str(details.get("reason") or details.get("llm_reason") or NO_REASON)


async def _grade(label: str, grader: Grader, evidence: Evidence, judges: Sequence[PublishedJudge]) -> Grade:
    threshold: float = trait_of(grader, "threshold")
    if asks_judges(grader):
        grader = grader.with_judges(judges)
    answer: Any = grader.grade(evidence)
    grade: Grade = await answer if inspect.isawaitable(answer) else answer
    return replace(grade, grader=label, threshold=threshold)


async def trials_of(
    run: LoggedRun, tasks: Mapping[str, SourceTask], report: Report | None, root: Path, registry: Registry
) -> list[Trial]:
    """Make a trial of each result; nothing is dropped, whatever went wrong in it."""
    return [
        await _trial(run, logged, tasks.get(logged.task), report, root, registry) for logged in run.results
    ]


async def _trial(
    run: LoggedRun,
    logged: LoggedResult,
    task: SourceTask | None,
    report: Report | None,
    root: Path,
    registry: Registry,
) -> Trial:
    trial_input, log, outcome = task_input(task, logged), logged.fields, outcome_of(logged)
    source = {"log": logged.file.relative_to(root).as_posix()}
    if report is not None:
        source["verdicts"] = report.file.relative_to(root).as_posix()
    imported = Event(0.0, "imported", "imported from a log of Ko-AgentBench", source)
    transcript = transcript_of(task, logged)
    transcript = replace(transcript, events=(imported, *transcript.events))
    metrics, judge = None, ""
    if report is not None and logged.task in report.metrics:
        metrics, judge = report.metrics[logged.task], report.judge
    # What the benchmark's evaluator knows of a task: what its log holds, the level among it, and no more.
    settings = {key: log[key] for key in EVALUATED_KEYS if log.get(key) is not None}
    config, recorder = {"task_level": log.get("level"), "mode": "upstream", **settings}, Recorder(lambda: 0.0)
    evidence = Evidence(trial_input, transcript, outcome)
    graders = {label: registry.grader_factory(name)(**config) for name, label in GROUPS[f"ko_{logged.level}"]}
    grades = tuple(
        [
            await _grade(label, grader, evidence, published_judges(label, metrics, judge, recorder))
            for label, grader in graders.items()
        ]
    )
    # Everything but the trial that each grade depends on, by its label.
    rulers = {
        label: [label, config, trait_of(grader, "version"), judge if label in JUDGED else ""]
        for label, grader in graders.items()
    }
    transcript = replace(transcript, events=(*transcript.events, *recorder.transcript().events))
    score = trial_score((grade.score, grade.weight) for grade in grades)
    # As the engine names the ending of a trial of a capability suite.
    ending: Ending = "passed" if all(grade.passed is not False for grade in grades) else "missed"
    if all(grade.score is None for grade in grades):
        ending = "errored"
    return Trial(
        key=TrialKey(NAME, logged.task, AGENT, run.model, "", 1),
        attempt=1,
        ending=ending,
        score=None if ending == "errored" else score,
        grades=grades,
        transcript=transcript,
        outcome=outcome,
        digests=_digests(run, logged, trial_input, rulers),
        kind=KIND,
        bucket=logged.level,
        file=f"evals/{NAME}/{task_file(task.level, task.id)}" if task else "",
        # The words of the runner's own error for a task that ran out of time.
        limit="seconds" if "exceeded timeout" in str(log.get("error") or "") else "",
        cause="ungraded" if ending == "errored" else "",
        message="nothing could be graded" if ending == "errored" else "",
        started_at=logged.started_at,
        seconds=float(log.get("execution_time") or 0),
    )


def _digests(
    run: LoggedRun, logged: LoggedResult, trial_input: Mapping[str, Any], rulers: Mapping[str, list[Any]]
) -> Digests:
    """Digest what was given and offered; the log does not say how the model was sampled."""
    return Digests(
        input=json_digest(trial_input),
        settings=json_digest([NAME, AGENT]),
        tools=json_digest(logged.fields.get("expected_tools") or []),
        ruler=json_digest(list(rulers.values())),
        model=json_digest([run.model, {}]),
        graders={label: versioned_digest(ruler[2], ruler) for label, ruler in rulers.items()},
    )

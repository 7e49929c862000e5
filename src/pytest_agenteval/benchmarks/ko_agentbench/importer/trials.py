"""A logged result as a finished trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import SourceTask
from pytest_agenteval.benchmarks.ko_agentbench.importer.grading import Published, Ruler
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import Logged, LoggedRun, Report
from pytest_agenteval.benchmarks.ko_agentbench.importer.suite import AGENT, KIND, NAME
from pytest_agenteval.benchmarks.ko_agentbench.importer.transcripts import (
    outcome_of,
    task_input,
    transcript_of,
)
from pytest_agenteval.canonical import digest
from pytest_agenteval.records.evidence import Evidence
from pytest_agenteval.records.grade import Grade
from pytest_agenteval.records.recorder import Recorder
from pytest_agenteval.records.transcript import Event, Transcript
from pytest_agenteval.records.trial import Digests, Ending, Trial, TrialKey
from pytest_agenteval.scoring.trial_score import trial_score

TIMED_OUT = "exceeded timeout"


async def trials_of(
    run: LoggedRun,
    tasks: Mapping[str, SourceTask],
    report: Report | None,
    root: Path,
) -> list[Trial]:
    """Make a trial of each result; nothing is dropped, whatever went wrong in it."""
    return [await _trial(run, logged, tasks.get(logged.task), report, root) for logged in run.results]


async def _trial(
    run: LoggedRun,
    logged: Logged,
    task: SourceTask | None,
    report: Report | None,
    root: Path,
) -> Trial:
    given, log, outcome = task_input(task, logged), logged.fields, outcome_of(logged)
    transcript = _with_source(transcript_of(task, logged), logged, report, root)
    ruler, published = Ruler(logged), _published(logged, report)
    asked = Recorder(lambda: 0.0)
    grades = await ruler.grades(Evidence(given, transcript, outcome), published, asked)
    transcript = replace(transcript, events=(*transcript.events, *asked.transcript().events))
    score = trial_score((grade.score, grade.weight) for grade in grades)
    ending = _ending(grades)
    return Trial(
        key=TrialKey(NAME, logged.task, AGENT, run.model, "", 1),
        attempt=1,
        ending=ending,
        score=None if ending == "errored" else score,
        grades=grades,
        transcript=transcript,
        outcome=outcome,
        digests=_digests(run, logged, given, ruler.digest(published.judge)),
        kind=KIND,
        bucket=logged.level,
        limit="seconds" if TIMED_OUT in str(log.get("error") or "") else "",
        cause="ungraded" if ending == "errored" else "",
        message="nothing could be graded" if ending == "errored" else "",
        started_at=logged.started_at,
        seconds=float(log.get("execution_time") or 0),
    )


def _ending(grades: Sequence[Grade]) -> Ending:
    """End as the engine ends a trial of a capability suite."""
    if all(grade.score is None for grade in grades):
        return "errored"
    return "passed" if all(grade.passed is not False for grade in grades) else "missed"


def _published(logged: Logged, report: Report | None) -> Published:
    if report is None or logged.task not in report.metrics:
        return Published()
    return Published(report.metrics[logged.task], report.judge)


def _with_source(transcript: Transcript, logged: Logged, report: Report | None, root: Path) -> Transcript:
    """Add where the trial and its verdicts come from."""
    details = {"log": logged.file.relative_to(root).as_posix()}
    if report is not None:
        details["verdicts"] = report.file.relative_to(root).as_posix()
    came = Event(0.0, "imported", "imported from a log of Ko-AgentBench", details)
    return Transcript(
        transcript.messages, transcript.calls, transcript.asks, (came, *transcript.events), transcript.usage
    )


def _digests(run: LoggedRun, logged: Logged, given: Mapping[str, Any], ruler: str) -> Digests:
    """Say what was given and offered; how it was sampled the log does not say."""
    return Digests(
        input=digest(given),
        settings=digest([NAME, AGENT]),
        tools=digest(logged.fields.get("expected_tools") or []),
        ruler=ruler,
        model=digest([run.model, {}]),
    )

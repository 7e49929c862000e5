"""A logged result as a finished trial, graded by our own graders as the benchmark's code grades."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_agenteval import (
    AgentEvalError,
    Digests,
    Ending,
    Event,
    Evidence,
    Grade,
    Grader,
    Recorder,
    Transcript,
    Trial,
    TrialKey,
)
from pytest_agenteval.benchmarks.ko_agentbench.graders import GRADERS, GROUPS
from pytest_agenteval.benchmarks.ko_agentbench.importer.clone import SourceTask
from pytest_agenteval.benchmarks.ko_agentbench.importer.logs import (
    EVALUATED_KEYS,
    LoggedResult,
    LoggedRun,
    Report,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.suite import AGENT, KIND, NAME
from pytest_agenteval.benchmarks.ko_agentbench.importer.transcripts import (
    outcome_of,
    task_input,
    transcript_of,
)
from pytest_agenteval.benchmarks.ko_agentbench.importer.verdicts import JUDGED, published_judges
from pytest_agenteval.canonical import digest
from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.scoring.aggregates import trial_score

PACKAGE = "pytest_agenteval"
MODE = "upstream"


class PublishedMetrics(FrozenValue, frozen=True):
    """What a report says of a task, and who judged; without a report there are neither."""

    metrics: Mapping[str, Any] | None = None
    judge: str = ""


class LogGraders:
    """The graders of one logged result."""

    def __init__(self, logged: LoggedResult) -> None:
        self.config = grader_config(logged)
        self._graders = dict(_make_graders(logged.level, self.config))

    async def grades(
        self, evidence: Evidence, published: PublishedMetrics, asked: Recorder
    ) -> tuple[Grade, ...]:
        """Give every grade; judges say what was published, and what they are asked is written down."""
        return tuple([await self._grade(label, evidence, published, asked) for label in self._graders])

    def digest(self, judge: str) -> str:
        """Give a digest of everything that the grades depend on beside the trial."""
        rows = [
            [label, self.config, getattr(one, "version", "1"), judge if label in JUDGED else ""]
            for label, one in self._graders.items()
        ]
        return digest(rows)

    async def _grade(
        self, label: str, evidence: Evidence, published: PublishedMetrics, asked: Recorder
    ) -> Grade:
        grader = self._graders[label]
        if isinstance(grader, Grade):
            return grader
        threshold: float = getattr(grader, "threshold", 1.0)
        with_judges = getattr(grader, "with_judges", None)
        judges = published_judges(label, published.metrics, published.judge, asked) if with_judges else ()
        asking = with_judges(judges) if with_judges else grader
        found: Any = asking.grade(evidence)
        grade: Grade = await found if inspect.isawaitable(found) else found
        return replace(grade, grader=label, threshold=threshold)


def grader_config(logged: LoggedResult) -> dict[str, Any]:
    """Give what the benchmark's evaluator knows of a task: what its log holds, and no more."""
    said = {key: logged.fields[key] for key in EVALUATED_KEYS if logged.fields.get(key) is not None}
    return {"task_level": logged.fields.get("level"), "mode": MODE, **said}


def _make_graders(level: str, config: Mapping[str, Any]) -> Iterator[tuple[str, Grader | Grade]]:
    """Make the graders; one that refuses what the log says gives an undecided grade."""
    for name, label in GROUPS[f"ko_{level}"]:
        try:
            yield label, _factory(name)(**config)
        except (AgentEvalError, ValueError, TypeError) as refused:
            yield label, Grade(label, None, f"the log's task cannot be graded: {refused}")


@cache
def _factory(name: str) -> Callable[..., Grader]:
    """Find a grader's class as the registry does, which stands above this floor."""
    module, _, attribute = GRADERS[name].partition(":")
    factory: Callable[..., Grader] = getattr(import_module(f"{PACKAGE}.{module}"), attribute)
    return factory


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
    logged: LoggedResult,
    task: SourceTask | None,
    report: Report | None,
    root: Path,
) -> Trial:
    given, log, outcome = task_input(task, logged), logged.fields, outcome_of(logged)
    transcript = _with_source(transcript_of(task, logged), logged, report, root)
    ruler, published = LogGraders(logged), _published_metrics(logged, report)
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


def _published_metrics(logged: LoggedResult, report: Report | None) -> PublishedMetrics:
    if report is None or logged.task not in report.metrics:
        return PublishedMetrics()
    return PublishedMetrics(report.metrics[logged.task], report.judge)


def _with_source(
    transcript: Transcript, logged: LoggedResult, report: Report | None, root: Path
) -> Transcript:
    """Add where the trial and its verdicts come from."""
    details = {"log": logged.file.relative_to(root).as_posix()}
    if report is not None:
        details["verdicts"] = report.file.relative_to(root).as_posix()
    came = Event(0.0, "imported", "imported from a log of Ko-AgentBench", details)
    return Transcript(
        transcript.messages, transcript.calls, transcript.asks, (came, *transcript.events), transcript.usage
    )


def _digests(run: LoggedRun, logged: LoggedResult, given: Mapping[str, Any], ruler: str) -> Digests:
    """Say what was given and offered; how it was sampled the log does not say."""
    return Digests(
        input=digest(given),
        settings=digest([NAME, AGENT]),
        tools=digest(logged.fields.get("expected_tools") or []),
        ruler=ruler,
        model=digest([run.model, {}]),
    )

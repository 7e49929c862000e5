"""Small runs with the Korean benchmark's grades, whose figures can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from pytest_agenteval.benchmarks.ko_agentbench.scorecard import LEVEL_METRICS, OPTIONS, scorecard
from pytest_agenteval.records.evidence import Answer, Grade, Outcome
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import Ask, ToolCall, Transcript, Usage
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.reports.scorecard import RegisteredScorecard
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import (
    RunHeader,
    RunModel,
    RunSuite,
    new_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run

SCORECARDS = (
    RegisteredScorecard(
        "ko-agentbench",
        frozenset(label for own in LEVEL_METRICS.values() for label in own),
        lambda: scorecard,
        lambda: OPTIONS,
    ),
)
"""The benchmark's scorecard as the registry gives it."""

MODEL = RunModel("gpt", "azure/gpt-4o")
JUDGE = RunModel("judge", "azure/judge")
SUITE = RunSuite("ko", "capability", "tool_calling")
AT = "2026-11-21T09:30:15+00:00"
COMMON = {"SR": 1.0, "EPR_CVR": 0.5, "pass@k share": 1.0, "RRR": 1.0}


def key(task: str, model: str = "gpt", repetition: int = 1) -> TrialKey:
    """Name a trial of the suite ``ko``."""
    return TrialKey("ko", task, "tool_calling", model, "", repetition)


def grade(label: str, score: float | None, mode: str = "upstream") -> Grade:
    """Give a grade as the benchmark's graders leave it: with its details where the mode is its own."""
    details = {"upstream": {"label": label}} if mode == "upstream" else {}
    return Grade(label, score, f"why {label}", details=details, threshold=0.0)


def ko_trial(
    task: str, scores: Mapping[str, float | None], *, mode: str = "upstream", **fields: Any
) -> Trial:
    """Give a trial of a task, whose level its id tells, with these scores beside the common ones."""
    grades = tuple(grade(label, score, mode) for label, score in {**COMMON, **scores}.items())
    call = ToolCall("c1", 1, 0, "search", {"query": "서울"}, result={"items": [1]})
    asks = (Ask(1, 0.0, 0.5, Usage(), first_token_s=0.25), Ask(2, 1.0, 1.75, Usage()))
    usage = Usage(100, 20, asks=2)
    plain: dict[str, Any] = {
        "key": key(task),
        "attempt": 1,
        "ending": "passed",
        "score": 0.5,
        "grades": grades,
        "transcript": Transcript(calls=(call,), asks=asks, usage=usage),
        "outcome": Outcome(Answer("답")),
        "digests": Digests(ruler="r"),
        "kind": "capability",
        "bucket": task[:2],
        "started_at": AT,
        "seconds": 2.0,
    }
    return Trial(**{**plain, **fields})


def errored_trial(task: str, **fields: Any) -> Trial:
    """Give a trial that ended errored, without grades."""
    return ko_trial(task, {}, ending="errored", score=None, grades=(), cause="provider", **fields)


def every_level(score: float, model: str = "gpt", tasks: int = 2, **fields: Any) -> list[Trial]:
    """Give trials of all levels in which every metric has this score."""
    return [
        ko_trial(
            f"{level}-{number:03}",
            dict.fromkeys(metrics, score),
            **{"key": key(f"{level}-{number:03}", model), **fields},
        )
        for level, metrics in LEVEL_METRICS.items()
        for number in range(1, tasks + 1)
    ]


def ko_run(
    root: Path,
    trials: Iterable[Trial],
    models: tuple[RunModel, ...] = (MODEL,),
    planned: Iterable[tuple[TrialKey, str]] = (),
    at: str = AT,
) -> Run:
    """Write a run and read it back; what is planned is what was tried and these besides."""
    trials = list(trials)
    folder = new_run(root, RunHeader(at, models=models, suites=(SUITE,), judges=(JUDGE,)))
    write_planned(folder, planned_groups([*((trial.key, trial.bucket) for trial in trials), *planned]))
    with closing(JournalWriter(folder, "main")) as journal:
        journal.finished(trials)
    return load_run(folder)

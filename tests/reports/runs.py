"""Small runs whose figures can be worked out by hand."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from pytest_agenteval.records.evidence import Grade, Outcome
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.records.transcript import Transcript
from pytest_agenteval.records.trial import Digests, Trial
from pytest_agenteval.store.journal_writer import JournalWriter
from pytest_agenteval.store.run_folder import (
    RunHeader,
    RunModel,
    RunSuite,
    end_run,
    new_run,
    planned_groups,
    write_planned,
)
from pytest_agenteval.store.run_reader import Run, load_run

RULES_MODEL = RunModel("rules", "rules", offline=True)
CAPABILITY = RunSuite("s", "capability", "card")


def key(task: str, repetition: int = 1, model: str = "rules", variant: str = "") -> TrialKey:
    """Name a trial of the suite ``s``."""
    return TrialKey("s", task, "card", model, variant, repetition)


def trial(task: str, repetition: int, score: float | None, bucket: str = "x", **fields: Any) -> Trial:
    """Give a trial with one grade of threshold 1; with no score it is errored."""
    plain: dict[str, Any] = {
        "key": key(task, repetition),
        "attempt": 1,
        "ending": "errored" if score is None else "passed" if score == 1 else "missed",
        "score": score,
        "grades": () if score is None else (Grade("g", score, f"found {score}"),),
        "transcript": Transcript(),
        "outcome": Outcome(),
        "digests": Digests(),
        "kind": "capability",
        "bucket": bucket,
        "cause": "provider" if score is None else "",
        "split": "dev",
    }
    return Trial(**{**plain, **fields})


def store_run(
    root: Path,
    trials: Iterable[Trial],
    planned: Iterable[tuple[TrialKey, str]] = (),
    models: tuple[RunModel, ...] = (RULES_MODEL,),
    suites: tuple[RunSuite, ...] = (CAPABILITY,),
    ended_at: str = "",
) -> Run:
    """Write a run, which ended where a moment is given, and read it back."""
    folder = new_run(root, RunHeader("2026-11-21T09:30:15+00:00", models=models, suites=suites))
    if planned:
        write_planned(folder, planned_groups(planned))
    with closing(JournalWriter(folder, "main")) as journal:
        journal.finished(list(trials))
    if ended_at:
        end_run(folder, ended_at, exit_status=0)
    return load_run(folder)


PLANNED = [
    (key(task, number), bucket) for task, bucket in zip("abcd", "xxyy", strict=True) for number in (1, 2)
]
MIXED = [
    trial("a", 1, 1.0),
    trial("a", 2, 0.5),
    trial("b", 1, 1.0),
    trial("b", 2, None, message="503 from the provider\nretry: pytest evals"),
    trial("c", 1, 0.0, "y"),
    trial("c", 2, 0.0, "y"),
]
"""Task a passes once of twice, b passes once and is errored once, c never passes, d is never run."""

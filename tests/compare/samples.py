"""Small sides of comparisons, whose verdicts can be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agenteval.compare.pairing import ComparedRun
from pytest_agenteval.records.evidence import Grade
from pytest_agenteval.records.plan import TrialKey
from pytest_agenteval.store.journal_entry import JournalEntry, TranscriptLocation

Scores = Mapping[str, Sequence[float | None]]
"""The scores of each task's trials; None for one that errored."""


def entry(task: str, repetition: int, score: float | None, **fields: Any) -> JournalEntry:
    """One trial of a task ``bucket/name``, passed at 1 and missed below, with one grade."""
    bucket, _, name = task.rpartition("/")
    key = TrialKey(
        fields.pop("suite", "s"),
        name,
        "a",
        fields.pop("model", "rules"),
        fields.pop("variant", ""),
        repetition,
    )
    ending = "errored" if score is None else "passed" if score == 1 else "missed"
    return JournalEntry(
        key=key,
        attempt=1,
        ending=ending,
        score=score,
        grades=() if score is None else (Grade("g", score, ""),),
        location=TranscriptLocation("transcripts-main.jsonl", 0, 0),
        bucket=bucket,
        file=f"evals/s/{name}.yaml",
        kind="capability",
        **fields,
    )


def side(name: str, scores: Scores, judges: tuple[str, ...] = (), **fields: Any) -> ComparedRun:
    """A side whose tasks have these scores."""
    entries = (
        entry(task, repetition, score, **fields)
        for task, of_task in scores.items()
        for repetition, score in enumerate(of_task, 1)
    )
    return ComparedRun(name, tuple(entries), judges)


def tasks(bucket: str, number: int, *scores: float | None) -> dict[str, tuple[float | None, ...]]:
    """So many tasks of a bucket that all have these scores."""
    return {f"{bucket}/{bucket}{count}": scores for count in range(number)}

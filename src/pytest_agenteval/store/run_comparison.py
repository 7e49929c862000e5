"""The comparison that a run's folder holds: how the run stood beside its baseline when it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_agenteval.records.record import Record
from pytest_agenteval.store.runs import damage_text, read_json

COMPARISON = "comparison.json"


RULES = 2
"""The rules of today's verdicts: with those before, a verdict may be another."""


class StoredVerdict(Record, frozen=True):
    """What was said of one suite with its model and variant, and which of its buckets are worse or better.

    ``rules`` is the number of the rules that it was made by, ``of_these_tasks`` says that it does not speak
    of tasks like these.
    """

    suite: str
    who: tuple[str, str]
    verdict: str
    buckets_worse: tuple[str, ...] = ()
    buckets_better: tuple[str, ...] = ()
    of_these_tasks: bool = False
    rules: int = RULES


class StoredComparison(Record, frozen=True):
    """The verdict in a sentence, and suite by suite."""

    headline: str
    verdicts: tuple[StoredVerdict, ...]


def read_comparison(folder: Path) -> tuple[StoredComparison | None, str]:
    """Read what a run was found to be; None where it was compared with nothing, or what cannot be read."""
    path = folder / COMPARISON
    if not path.is_file():
        return None, ""
    try:
        data = read_json(path)
        if "gate" in data and "headline" not in data:  # gates alone: there was no baseline
            return None, ""
        rules = int(data.get("v", 1))
        verdicts = tuple(_verdict(suite, rules) for suite in data["suites"])
        return StoredComparison(str(data["headline"]), verdicts), ""
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as broken:
        return None, f"{COMPARISON}: left out: {damage_text(broken)}"


def _verdict(suite: Mapping[str, Any], rules: int) -> StoredVerdict:
    model, variant = suite["new_who"]
    whole = suite["suite"] or {}
    return StoredVerdict(
        suite=str(suite["name"]),
        who=(str(model), str(variant)),
        verdict=str(whole["verdict"]) if whole else "cannot tell",
        buckets_worse=tuple(_buckets(suite, "worse")),
        buckets_better=tuple(_buckets(suite, "better")),
        of_these_tasks=bool(whole.get("of_these_tasks", False)),
        rules=rules,
    )


def _buckets(suite: Mapping[str, Any], verdict: str) -> Iterator[str]:
    return (str(bucket["name"]) for bucket in suite["buckets"] if bucket["verdict"] == verdict)

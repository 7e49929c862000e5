"""Errors of one cause: one block at the end of a run, which counts the trials that ended by it."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any

from pytest_agenteval.reports.formatting import pluralize
from pytest_agenteval.session.report_hooks import longrepr

MOST_NAMED = 5
"""Trials that are named below the text that they share."""


def merge_equal(reports: list[Any]) -> list[Any]:
    """Give the error reports with one for all trials of the same text, where the first of them stood."""
    groups: dict[object, list[Any]] = {}
    for report in reports:
        of_trial = any(name == "agenteval.ending" for name, _ in getattr(report, "user_properties", ()))
        groups.setdefault(str(report.longrepr) if of_trial else id(report), []).append(report)
    return [group[0] if len(group) == 1 else _merged(group) for group in groups.values()]


def _merged(group: list[Any]) -> Any:
    first, text = group[0], str(group[0].longrepr).rstrip("\n")
    merged, count = copy(first), pluralize(len(group), "trial")
    file, line, _ = first.location
    in_short = f"{text.partition(chr(10))[0]} ({count})"
    lines = [text, f"the same in {len(group) - 1} more: {', '.join(_names(group[1:]))}"]
    merged.longrepr = longrepr("\n".join(lines), file, (line or 0) + 1, in_short)
    return merged


def _names(others: list[Any]) -> Iterator[str]:
    for report in others[:MOST_NAMED]:
        yield report.nodeid.rpartition("::")[2]
    if len(others) > MOST_NAMED:
        yield "..."

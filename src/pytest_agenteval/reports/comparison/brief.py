"""A comparison in a few lines, for a screen that shows a run beside it."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_agenteval.compare.comparison import Comparison, SuiteComparison
from pytest_agenteval.compare.verdict import Change
from pytest_agenteval.reports.comparison.headline import bucket_name, suite_label, tasks_compared
from pytest_agenteval.reports.comparison.phrases import (
    drift_text,
    format_change,
    look_text,
    pooled_text,
    verdict_text,
)
from pytest_agenteval.reports.comparison.screen import comparison_lines, headline_lines
from pytest_agenteval.text.formatting import (
    StyledLine,
    clamp_width,
    format_figure,
    pluralize,
    printable,
    wrapped_lines,
)

MOST_BUCKETS = 5
"""Buckets of a suite that are named."""


def verdict_lines(comparison: Comparison, width: int, verbosity: int) -> list[StyledLine]:
    """Give the verdict with each suite's score and changed buckets; all of it from 1, the verdict below 0."""
    if verbosity > 0:
        return comparison_lines(comparison, width, whole=True)
    lines = headline_lines(comparison, width)
    return lines if verbosity < 0 else [*lines, *_brief(comparison, clamp_width(width))]


def _brief(comparison: Comparison, width: int) -> Iterator[StyledLine]:
    for suite in comparison.suites:
        if suite.suite is not None and suite.suite.verdict != "identical":
            yield from wrapped_lines(_suite_text(suite, suite.suite), width)
            for text in drift_text(suite):
                yield from wrapped_lines(printable(text), width, "yellow", indent="    ")
            for change in _changed(suite)[:MOST_BUCKETS]:
                worse = change.verdict == "worse"
                yield from wrapped_lines(_bucket_text(change), width, "red" if worse else "", indent="    ")
    if comparison.obstacles:
        yield from wrapped_lines(_left_out_text(comparison), width, "yellow")
    tasks = pluralize(len(tasks_compared(comparison)), "task")
    yield from wrapped_lines(f"{tasks} compared with {printable(comparison.old)}", width, "dim")


def _changed(suite: SuiteComparison) -> list[Change]:
    changed = [change for change in suite.buckets if change.verdict in ("better", "worse")]
    return sorted(changed, key=lambda change: change.change)


def _suite_text(suite: SuiteComparison, change: Change) -> str:
    parts = [f"{suite_label(suite)}  {format_figure(change.old)} -> {format_figure(change.new)}"]
    if change.interval is not None:
        low, high = (format_change(end) for end in (change.interval.low, change.interval.high))
        parts.append(f"{format_change(change.change)}, between {low} and {high}")
    if pooled := pooled_text(suite):
        parts.append(pooled)
    if suite.look is not None:
        parts.append(f"x {suite.look.repetitions}{look_text(suite.look)}")
    if any(suite.errored):
        parts.append(f"errored {suite.errored[0]} -> {suite.errored[1]}")
    return "   ".join(parts)


def _bucket_text(change: Change) -> str:
    scores = f"{format_figure(change.old)} -> {format_figure(change.new)}"
    return f"{bucket_name(change)}  {scores}  {verdict_text(change)}"


def _left_out_text(comparison: Comparison) -> str:
    first = printable(str(comparison.obstacles[0]))
    left = len(comparison.obstacles) - 1
    return f"not compared: {first}{f', and {left} more (-v)' if left else ''}"

"""A trial's ending in pytest's reports: the words, the time, the properties and what was printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.junit import properties
from pytest_agenteval.reports.reasons import grade_lines, notes, short_reason, why
from pytest_agenteval.reports.wording import figure
from pytest_agenteval.session.evals import evals_of

MOST_TRACE = 4000
"""Characters of a traceback that a report shows; the rest is in the transcript."""


def reason_below(trial: Trial) -> str:
    """Give the reason of a miss or a failure; where it is shown, its word and its score stand before it."""
    return why(trial) or "below its threshold"


def longrepr(text: str, file: Path, line: int, in_short: str) -> ReprExceptionInfo:
    """Give a report's text, and what alone of it stands in pytest's short summary, under -vv too."""
    told = [f"{each}\n" for each in text.splitlines()]
    return ReprExceptionInfo(
        ReprTraceback([ReprEntryNative(told)], None, "native"),
        ReprFileLocation(str(file), line, in_short),
    )


def tell(item: Any, report: pytest.TestReport) -> None:
    """Put what the trial has to say onto the report of one phase.

    Score and reasons stand on the call report, or on the setup report of an errored trial: reports cross
    to the controller one by one, and what stood on each would cross three times. JUnit reads the last report
    only.
    """
    trial: Trial = item.trial
    told = "setup" if trial.ending == "errored" else "call"
    if report.when == "setup":
        # The item only waited; the time is the agent's.
        report.duration = max(report.duration, trial.seconds)
    if report.when == told or (report.when == "teardown" and item.config.getoption("xmlpath", None)):
        report.user_properties += properties(trial, _transcripts(item))
    if report.when == told:
        report.sections += _sections(trial)
    if report.when == told == "setup":
        text = _broken(trial)
        report.longrepr = longrepr(text, item.path, item.task.line, text.partition("\n")[0])
    if report.when == "teardown":
        item.trial = None


def word(report: Any, ending: str) -> tuple[str, str, Any] | None:
    """Give category, letter and word of a report; errored trials are pytest's own errors."""
    if ending == "errored" or report.when != "call":
        return None
    score = figure(float(dict(report.user_properties).get("agenteval.score", "nan")))
    if report.passed:
        return "passed", ".", f"PASSED {score}"
    if report.failed:
        return "failed", "F", (f"FAILED {score}", {"red": True})
    if hasattr(report, "wasxfail"):
        return "xfailed", "m", (f"MISSED {score}", {"yellow": True})
    return None


def _transcripts(item: Any) -> str:
    return evals_of(item.config).run.transcripts(item.trial)


def _sections(trial: Trial) -> list[tuple[str, str]]:
    told = (("Captured agent output", trial.output), ("Captured agent log", trial.log))
    return [(title, text) for title, text in told if text]


def _broken(trial: Trial) -> str:
    """Say why a trial broke: in one line, with the traceback where somebody's code raised, and all grades."""
    head = short_reason(trial)
    first, _, body = trial.message.partition("\n")
    if first not in head:  # it was too long for one line
        head, body = f"{trial.cause}: {first}", body
    trace = trial.traceback[-MOST_TRACE:]
    return "\n".join(part for part in (head, body, trace, *grade_lines(trial), *notes(trial)) if part)

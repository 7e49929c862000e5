"""What pytest's reports and other plugins' hooks receive of a trial: its words, time, properties, output."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

from pytest_agenteval.engine.jobs import NotRun
from pytest_agenteval.engine.tracebacks import exception_line, user_frames_first
from pytest_agenteval.records.explanation import error_text
from pytest_agenteval.records.trial import Trial
from pytest_agenteval.reports.junit_properties import place_properties, trial_properties
from pytest_agenteval.text.formatting import format_figure

# What pytest wants: a category to count by, a letter, and a word, perhaps with its colour.
StatusWord: TypeAlias = tuple[str, str, Any]


def make_longrepr(text: str, file: Path, line: int, in_short: str) -> ReprExceptionInfo:
    """Make a report's text; ``in_short`` is its line in pytest's short summary, under -vv too."""
    lines = [f"{line}\n" for line in text.splitlines()]
    return ReprExceptionInfo(
        ReprTraceback([ReprEntryNative(lines)], None, "native"), ReprFileLocation(str(file), line, in_short)
    )


# The property of a trial that had ended before: resumed, reused or regraded.
TAKEN_OVER = "agenteval.taken_over"

NOT_RUN = "not_run"  # the ending, in the properties of its item's report, of a trial that did not run


def skip_item(item: pytest.Item, why: NotRun) -> NoReturn:
    """Skip the item that pytest is running now, because its trial does not run."""
    item.user_properties += [("agenteval.ending", NOT_RUN), ("agenteval.cause", why.cause)]
    raise pytest.skip.Exception(why.reason, _use_item_location=True)


def annotate_report(item: Any, report: pytest.TestReport) -> None:
    """Put time, score, reasons and output of an item's trial onto the report of one phase."""
    # Properties go on the call report, or on the setup report of an errored trial, for whoever reads reports.
    # JUnit reads the last report only.
    trial: Trial = item.trial
    telling_phase = "setup" if trial.ending == "errored" else "call"
    if report.when == "setup":
        # The item itself only waited, perhaps for other trials; the report shows the trial's own time.
        report.duration = trial.seconds
    for_junit = report.when == "teardown" and getattr(item.config.option, "xmlpath", None)
    if for_junit or report.when == telling_phase:
        report.user_properties += trial_properties(trial, item.evals.runner.transcripts(trial))
        word = item.evals.runner.trial_origin_label(trial)
        report.user_properties += [(TAKEN_OVER, word)] if word else []
    if for_junit:
        # The line of the grader that was missed, else that of the task.
        missed = None if trial.ending == "passed" else item.evals.task_lines.line_of(trial)
        file = item.task.row_file or trial.file
        report.user_properties += place_properties(file, missed or item.task.line)
    if report.when == telling_phase:
        captured = (("Captured agent output", trial.output), ("Captured agent log", trial.log))
        report.sections += [(title, text) for title, text in captured if text]
    if report.when == telling_phase == "setup":
        text = error_text(trial, trial.transcript)
        report.longrepr = make_longrepr(text, item.source, item.task.line, text.partition("\n")[0])
    if report.when == "teardown":  # the last of its reports
        item.trial = None


def status_word(report: Any, ending: str) -> StatusWord | None:
    """Give category, letter and word of a report; None for an errored trial, which is pytest's own error."""
    if ending == "errored":
        return None
    if ending == NOT_RUN:
        return "not run", "n", ("NOT RUN", {"yellow": True})
    # Read from the end: a fixture of the user may have recorded a property of the same name before ours.
    ours = reversed(report.user_properties)
    score = next((value for name, value in ours if name == "agenteval.score"), "nan")
    taken_over = next((value for name, value in report.user_properties if name == TAKEN_OVER), "")
    return _cached_status_word(report.outcome, hasattr(report, "wasxfail"), score, taken_over)


@lru_cache(1024)
def _cached_status_word(
    outcome: str, expected_to_fail: bool, score: str, taken_over: str
) -> StatusWord | None:
    figure = f"{format_figure(float(score))} {taken_over}".rstrip()
    if outcome == "passed":
        return "passed", ".", f"PASSED {figure}"
    if outcome == "failed":
        return "failed", "F", (f"FAILED {figure}", {"red": True})
    if expected_to_fail:
        return "xfailed", "m", (f"MISSED {figure}", {"yellow": True})
    return None


HOOK_NAME = "pytest_agenteval_trial_finished"
MOST_TRACEBACK_LINES = 8  # lines of the traceback that are shown of a hook that raised


def call_trial_finished(config: pytest.Config, trial: Trial, failed_hooks: dict[str, str]) -> None:
    """Call every plugin's hook; put the report of one that raises into ``failed_hooks``, once."""
    for place, call in _calls(config):
        try:
            call(config=config, trial=trial)
        except (pytest.exit.Exception, KeyboardInterrupt):
            raise
        except BaseException as raised:  # also pytest.fail, pytest.skip and sys.exit: the trial has ended
            if place not in failed_hooks:
                last = user_frames_first(raised).rstrip().splitlines()[-MOST_TRACEBACK_LINES:]
                head = (
                    f"warning: hook {HOOK_NAME} in {place} raised {exception_line(raised)}; "
                    "trials are not affected"
                )
                failed_hooks[place] = "\n".join([head, *(f"  {line}" for line in last)])


def _calls(config: pytest.Config) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Give each plugin's hook by itself, so that the others are called after one that raises."""
    implementations = config.hook.pytest_agenteval_trial_finished.get_hookimpls()
    for implementation in reversed(implementations):
        others = [other.plugin for other in implementations if other.plugin is not implementation.plugin]
        yield _place(implementation), config.pluginmanager.subset_hook_caller(HOOK_NAME, others)


def _place(implementation: Any) -> str:
    code = getattr(inspect.unwrap(implementation.function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else str(implementation.plugin_name)

"""The hooks that pytest calls while items run and when a run ends; without evals each returns at once.

Registered in every pytest run, used or not: like plugin.py it imports pytest and the standard library only.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_agenteval.session.stash import (
    eval_session_key,
    progress_key,
    run_end_key,
    run_info_key,
    uncollected_key,
    worker_messages_key,
)

if TYPE_CHECKING:
    from pytest_agenteval.session.eval_session import EvalSession


def find_eval_session(config: pytest.Config) -> EvalSession | None:
    """Give the evals of this session; None until the first task file or test needs them."""
    evals: EvalSession | None = config.stash.get(eval_session_key, None)
    return evals


def pytest_report_collectionfinish(config: pytest.Config) -> list[str]:
    """Show how many trials will run, with which models."""
    evals = find_eval_session(config)
    if evals is None or not (evals.selected or evals.calibrations):
        return []
    from pytest_agenteval.session.summary import collection_header

    return collection_header(evals)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Show the run's progress, and stop what is still running when the loop ends, however it ends."""
    are_stopped = _stop_commands(session.config)
    evals = find_eval_session(session.config)
    if evals is not None and evals.selected and not evals.settings.dry_run:
        from pytest_agenteval.session.panel import begin_progress

        begin_progress(session.config)
    try:
        return (yield)
    except pytest.exit.Exception:
        evals = find_eval_session(session.config)
        if evals is not None and evals.has_runner and evals.runner.stop.received:
            # The controller has stopped this worker, which is no error.
            return True
        raise
    finally:
        # First the panel: the rest may take long, or be interrupted.
        if progress_key in session.config.stash:
            session.config.stash[progress_key].close()
        evals = find_eval_session(session.config)
        if evals is not None and evals.has_runner:
            evals.runner.close()
        if hasattr(session.config, "workeroutput") and (evals is not None or not session.items):
            from pytest_agenteval.session.worker_messages import own_messages

            session.config.workeroutput["agenteval"] = own_messages(session.config).to_json()
        if are_stopped or _speaks_for_run(session.config):
            from pytest_agenteval.session.pytest_output import resume_commands
            from pytest_agenteval.session.run_info import get_run_info

            resume_commands(session.config, get_run_info(session.config).resuming)


def _stop_commands(config: pytest.Config) -> bool:
    """Make the GitHub Actions runner ignore commands while agents act; True if this process undoes that."""
    evals = find_eval_session(config)
    if evals is None or config.option.collectonly or evals.settings.dry_run:
        return False
    if not (evals.selected or evals.calibrations or evals.tests):
        return False
    from pytest_agenteval.session.pytest_output import stop_commands
    from pytest_agenteval.session.run_info import get_run_info

    stop_commands(config, get_run_info(config).resuming)
    return not hasattr(config, "workerinput")  # other workers may still be running


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the agent's time, the score and its reasons onto reports, and take secrets out of them."""
    # The first wrapper sees the report last, so what other plugins add to it is cleaned too.
    report = yield
    if find_eval_session(item.config) is not None:
        from pytest_agenteval.session.item_reports import annotate_report
        from pytest_agenteval.session.pytest_output import hide_in_report

        # In this order: grades and the output of agents may hold secrets, which the second call takes out.
        if getattr(item, "trial", None) is not None:
            annotate_report(item, report)
        hide_in_report(report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message: warnings.WarningMessage) -> None:
    """Take secrets out of a warning before it is shown, or a worker sends it."""
    secrets = sys.modules.get("pytest_agenteval.session.pytest_output")
    if secrets is not None:  # else no evals were met
        secrets.hide_in_warning(warning_message)


@pytest.hookimpl(tryfirst=True)
def pytest_report_from_serializable(data: dict[str, Any]) -> None:
    """Unpack the report of a worker, before pytest reads it."""
    if "agenteval_packed" in data:
        from pytest_agenteval.session.worker_messages import unpack_report

        unpack_report(data)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> tuple[str, str, Any] | None:
    """Show the score beside the ending."""
    # First, as the first answer counts and pytest's own hook answers for every report.
    when = getattr(report, "when", None)
    if when != "call" and not (when == "setup" and report.outcome == "skipped"):  # a trial that is not run
        return None
    for name, value in getattr(report, "user_properties", ()):
        if name == "agenteval.ending":
            from pytest_agenteval.session.item_reports import status_word

            return status_word(report, value)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the run's record, and add the suites' totals to JUnit while its file is not written yet."""
    nothing_ran, stash = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED, session.config.stash
    if nothing_ran and (eval_session_key in stash or worker_messages_key in stash):
        from pytest_agenteval.session.worker_messages import is_empty_shard

        # All items belong to other shards, which is no failure of this one.
        if is_empty_shard(session.config):
            exitstatus = session.exitstatus = pytest.ExitCode.OK
    if _speaks_for_run(session.config):
        from pytest_agenteval.session.run_end import RunEnd

        session.config.stash[run_end_key] = RunEnd(session.config)
        session.config.stash[run_end_key].finish(session, int(exitstatus))


@pytest.hookimpl(wrapper=True, tryfirst=True, specname="pytest_terminal_summary")
def pytest_terminal_summary_of_errors(
    terminalreporter: Any, config: pytest.Config
) -> Generator[None, object, object]:
    """Have pytest write one block, and one line of its short summary, for all trials with the same error."""
    errors = terminalreporter.stats.get("error", [])
    if len(errors) < 2 or not _speaks_for_run(config):
        return (yield)
    from pytest_agenteval.session.summary import merge_equal_errors

    terminalreporter.stats["error"] = merge_equal_errors(errors)
    try:
        return (yield)
    # The last line of pytest counts each of the errors, so the whole list is put back.
    finally:
        terminalreporter.stats["error"] = errors


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    """Show the end screen of the run, or why no trial ran."""
    if _speaks_for_run(config):
        from pytest_agenteval.session.summary import summarize

        summarize(terminalreporter, config.stash[run_end_key])
        return
    nothing = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and uncollected_key in config.stash
    if eval_session_key in config.stash or worker_messages_key in config.stash or nothing:
        from pytest_agenteval.session.summary import explain_no_trials

        explain_no_trials(terminalreporter, exitstatus, config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _speaks_for_run(config):
        from pytest_agenteval.session.run_end import RunEnd

        RunEnd(config).remove_unwanted()


def _speaks_for_run(config: pytest.Config) -> bool:
    if hasattr(config, "workerinput"):
        return False
    info = config.stash.get(run_info_key, None)
    if info is None:
        return False
    from pytest_agenteval.session.run_info import was_started

    return was_started(info)

"""A run is over: its verdict, its end on disk, JUnit's file, reports and the comment for a pull request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.reports.junit_properties import (
    prefix_endings,
    set_places,
    suite_properties,
    verdict_properties,
)
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.scorecard import relevant_scorecards
from pytest_agenteval.session.inner_pytest import RUN_FOLDER_TO
from pytest_agenteval.session.pytest_output import hide_in_xml, hide_on_terminal
from pytest_agenteval.session.run_info import SERVERS_FOLDER, RunInfo
from pytest_agenteval.session.run_journal import (
    dead_processes,
    ended_run,
    forget_dead_workers,
    forget_ended_run,
    read_header_again,
)
from pytest_agenteval.session.run_signals import BUDGET_FILES
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import report_paths_key, run_info_key, verdict_key
from pytest_agenteval.session.worker_messages import WorkerMessages, add_messages
from pytest_agenteval.store.run_documents import GATES
from pytest_agenteval.store.run_folder import end_run
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import AgentEvalError
from pytest_agenteval.text.formatting import StyledLine, wrapped_lines

if TYPE_CHECKING:
    from _pytest.junitxml import LogXML

    from pytest_agenteval.session.run_verdict import RunVerdict


def _write_reports(config: pytest.Config) -> list[str]:
    info: RunInfo = config.stash[run_info_key]
    if not info.reports:
        return []
    from pytest_agenteval.reports.report_files import write_report
    from pytest_agenteval.reports.report_source import ReportSource

    verdict, scorecards = config.stash.get(verdict_key, None), get_registry(config).scorecards()
    source = ReportSource((ended_run(config),), scorecards=scorecards)
    if verdict is not None and verdict.comparison is not None and verdict.comparison.suites:
        # The file of a baseline has no transcripts to show.
        old = load_run(info.baseline) if info.baseline is not None and info.baseline.is_dir() else None
        source = ReportSource((ended_run(config),), verdict.comparison, verdict.old, old, scorecards)
    paths: list[Path] = []
    problems: list[str] = []
    for path in info.reports:
        try:
            write_report(path, source)
            paths.append(path)
        except AgentEvalError as refused:  # the others are written all the same
            problems.append(str(refused))
    config.stash[report_paths_key] = tuple(paths)
    return problems


def _write_comment(config: pytest.Config) -> Iterator[str]:
    """Write the comment of ``--agent-comment``; give a sentence where that fails."""
    path = read_settings(config).comment
    if path is None:
        return
    from pytest_agenteval.reports.markdown_report import comment_markdown
    from pytest_agenteval.reports.task_lines import TaskFileLines

    run = ended_run(config)
    verdict = config.stash.get(verdict_key, None)
    comparison, lines = (verdict.comparison, verdict.lines) if verdict is not None else (None, ())
    totals = (line.text for line in run_scorecards(config, run, WIDE, whole=False))
    remarks = [*lines, *totals]
    text = comment_markdown(run, view_of(run), TaskFileLines(config.rootpath), comparison, remarks)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as refused:
        yield f"the comment {path} cannot be written: {refused.strerror or refused}"


WIDE = 120  # columns of text that is not written to a terminal


def finish_run(session: pytest.Session, status: int) -> None:
    """Write down how the run ended, and the suites' totals into JUnit's file, which workers do not have."""
    config = session.config
    # If workers carried out the trials, this process meets the run's evals here for the first time.
    hide_on_terminal(config.pluginmanager.get_plugin("terminalreporter"))
    verdict: RunVerdict | None = None
    if (run_folder(config) / GATES).exists() or config.stash[run_info_key].baseline is not None:
        from pytest_agenteval.session.run_verdict import verdict_on

        verdict = verdict_on(config, status)
    if verdict is not None:
        config.stash[verdict_key] = verdict
        if verdict.interrupted:
            status = session.exitstatus = pytest.ExitCode.INTERRUPTED
        elif verdict.outcome.broken and status == pytest.ExitCode.OK:
            status = session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and ended_run(config).not_run:
        # A run whose trials did not all run has not passed.
        status = session.exitstatus = pytest.ExitCode.INTERRUPTED
    try:
        _write_run_end(config, status)
    except OSError as failed:  # a full disk: the results are shown all the same
        remark = f"how the run ended cannot be written to {run_folder(config)}: {failed.strerror or failed}"
        add_messages(config, WorkerMessages(lines=(remark,)))
        session.exitstatus = status or pytest.ExitCode.TESTS_FAILED
    read_header_again(config)
    _end_xml(session)
    problems = [*_write_reports(config), *_write_comment(config)]
    if problems:
        add_messages(config, WorkerMessages(lines=tuple(problems)))
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    if place := os.environ.get(RUN_FOLDER_TO):
        Path(place).write_text(str(run_folder(config)), encoding="utf-8", newline="\n")


def _write_run_end(config: pytest.Config, status: int) -> None:
    regraded = config.stash[run_info_key].regraded
    if regraded:
        from pytest_agenteval.session.reuse import record_original_judges

        record_original_judges(run_folder(config), regraded)
    verdict = config.stash.get(verdict_key, None)
    if verdict is not None:
        from pytest_agenteval.session.run_verdict import write_comparison

        write_comparison(run_folder(config), verdict)
    ended_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    end_run(run_folder(config), ended_at, status, dead_processes(config.stash[run_info_key]))


def _end_xml(session: pytest.Session) -> None:
    # The key is private to pytest, but the only way to the whole file: a property that a worker records for
    # its session is lost.
    from _pytest.junitxml import xml_key

    config = session.config
    xml = config.stash.get(xml_key, None)
    if xml is None:
        return
    hide_in_xml(xml)
    cases = [case.to_xml() for case in xml.node_reporters_ordered]
    prefix_endings(cases)
    set_places(cases)
    properties = [*suite_properties(view_of(ended_run(config)))]
    verdict, compared, old = config.stash.get(verdict_key, None), "", ""
    if verdict is not None and verdict.comparison is not None:
        from pytest_agenteval.reports.comparison_text import headline

        compared, old = headline(verdict.comparison), verdict.comparison.old
    if verdict is not None:
        properties += verdict_properties(compared, old, verdict.lines)
    for name, value in properties:
        xml.add_global_property(name, value)
    for implementation in config.hook.pytest_sessionfinish.get_hookimpls():
        # If pytest's hook raised, no summary would be shown and no file cleaned up.
        if implementation.plugin is xml:
            write = partial(_write_junit, session, xml, implementation.function)
            implementation.function = write  # type: ignore[misc]  # final, and the only way in


def _write_junit(session: pytest.Session, xml: LogXML, write: Callable[[], object]) -> None:
    """Have pytest write JUnit's file; where that fails, say so and go on."""
    from _pytest.junitxml import xml_key

    config = session.config
    try:
        write()
    except OSError as failed:
        path = Path(xml.logfile)
        with suppress(OSError):
            if path.is_file():  # it is half written
                path.unlink()
        # Otherwise pytest would print that the file was written.
        config.pluginmanager.unregister(xml)
        del config.stash[xml_key]
        why = f"{path}: JUnit's file cannot be written ({failed.strerror or failed})"
        remark = f"{why}; once it can be: agenteval report {run_folder(config).name} -o junit.xml"
        add_messages(config, WorkerMessages(lines=(remark,)))
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def remove_unwanted_run(config: pytest.Config) -> None:
    """Delete the files that only a running run needs, and the run itself where it is not saved."""
    info = config.stash[run_info_key]
    forget_ended_run(config)
    forget_dead_workers(info.folder)
    for ledger in info.folder.glob(BUDGET_FILES):
        ledger.unlink(missing_ok=True)
    if (info.folder / SERVERS_FOLDER).is_dir():
        from pytest_agenteval.chat.local.vllm_chat import end_servers

        end_servers(info.folder / SERVERS_FOLDER)
    if not info.is_saved:
        shutil.rmtree(info.folder.parent, ignore_errors=True)


def run_folder(config: pytest.Config) -> Path:
    info: RunInfo = config.stash[run_info_key]
    return info.folder


def run_scorecards(config: pytest.Config, run: Run, width: int, *, whole: bool) -> Iterator[StyledLine]:
    """Give the scorecards that benchmarks make of suites with their graders."""
    scorecards = relevant_scorecards(run.entries, get_registry(config).scorecards())
    if scorecards:
        from pytest_agenteval.reports.leaderboard import scorecard_lines

        try:
            yield from scorecard_lines(run, scorecards, width, whole=whole)
        except AgentEvalError as mistake:  # a benchmark's own code: the run's tables are shown all the same
            yield from wrapped_lines(str(mistake), width, "red", indent="")

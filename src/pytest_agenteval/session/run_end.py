"""A run is over: its verdict, its end on disk, JUnit's file, reports and the comment for a pull request."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.reports.junit_properties import (
    prefix_endings,
    set_places,
    suite_properties,
    verdict_properties,
)
from pytest_agenteval.reports.run_view import RunView, view_of
from pytest_agenteval.reports.scorecard import relevant_scorecards
from pytest_agenteval.session.inner_pytest import RUN_FOLDER_TO
from pytest_agenteval.session.pytest_output import hide_in_xml, hide_on_terminal
from pytest_agenteval.session.run_info import SERVERS_FOLDER, RunInfo
from pytest_agenteval.session.run_journal import dead_processes
from pytest_agenteval.session.run_signals import BUDGET_FILES, DEAD_WORKERS
from pytest_agenteval.session.settings_reading import read_settings
from pytest_agenteval.session.stash import run_info_key
from pytest_agenteval.session.worker_messages import WorkerMessages, add_messages
from pytest_agenteval.store.run_documents import GATES
from pytest_agenteval.store.run_folder import end_run, read_header_or_name
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import AgentEvalError, UsageMistake
from pytest_agenteval.text.formatting import StyledLine, wrapped_lines

if TYPE_CHECKING:
    from _pytest.junitxml import LogXML

    from pytest_agenteval.compare.comparison import RunComparison
    from pytest_agenteval.reports.sides import Sides
    from pytest_agenteval.session.run_verdict import RunVerdict

WIDE = 120  # columns of text that is not written to a terminal


class RunEnd:
    """The run that this process speaks for, once all of its trials have ended; read back only once."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.settings = config, read_settings(config)
        self.info: RunInfo = config.stash[run_info_key]
        self.folder = self.info.folder
        self.verdict: RunVerdict | None = None
        self.reports: list[Path] = []

    @cached_property
    def run(self) -> Run:
        return load_run(self.folder)

    @cached_property
    def view(self) -> RunView:
        """The run's figures; first looked at when its header says how it ended."""
        return view_of(self.run)

    @cached_property
    def sides(self) -> Sides | None:
        """The models and variants of the run; None for a run with one of each, or for a shard."""
        if len({suite.who for suite in self.view.suites}) < 2 or self.run.header.shards is not None:
            return None
        from pytest_agenteval.reports.sides import sides_of

        return sides_of([self.run])

    @cached_property
    def side_verdicts(self) -> list[str]:
        """Which model or variant of the run beats which."""
        if self.sides is None:
            return []
        from pytest_agenteval.reports.sides_report import verdict_texts

        return verdict_texts(self.sides)

    @property
    def comparison(self) -> RunComparison | None:
        """How the run compares with its baseline; None without one."""
        return self.verdict.comparison if self.verdict is not None else None

    @property
    def verdict_lines(self) -> tuple[str, ...]:
        """Which tasks ran again, and what came of the gates."""
        return self.verdict.lines if self.verdict is not None else ()

    def relative(self, path: Path) -> Path:
        """Give a path as seen from where pytest was started, where it lies below."""
        here = self.config.invocation_params.dir
        return path.relative_to(here) if path.is_relative_to(here) else path

    def scorecard_lines(self, width: int, *, whole: bool) -> Iterator[StyledLine]:
        """Give the scorecards that benchmarks make of suites with their graders."""
        scorecards = relevant_scorecards(self.run.entries, get_registry(self.config).scorecards())
        if scorecards:
            from pytest_agenteval.reports.leaderboard import scorecard_lines

            try:
                yield from scorecard_lines(self.run, scorecards, width, whole=whole)
            except AgentEvalError as mistake:  # a benchmark's own code: the tables are shown all the same
                yield from wrapped_lines(str(mistake), width, "red", indent="")

    def finish(self, session: pytest.Session, status: int) -> None:
        """Write down how the run ended, the suites' totals into JUnit's file, reports and the comment."""
        # If workers carried out the trials, this process meets the run's evals here for the first time.
        hide_on_terminal(self.config.pluginmanager.get_plugin("terminalreporter"))
        problems = list(self._carry_notes())
        if (self.folder / GATES).exists() or self.info.baseline is not None:
            from pytest_agenteval.session.run_verdict import verdict_on

            self.verdict = verdict_on(self.config, self.run, status)
        if self.verdict is not None and self.verdict.interrupted:
            status = session.exitstatus = pytest.ExitCode.INTERRUPTED
        elif self.verdict is not None and self.verdict.outcome.broken and status == pytest.ExitCode.OK:
            status = session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and self.run.not_run:
            # A run whose trials did not all run has not passed.
            status = session.exitstatus = pytest.ExitCode.INTERRUPTED
        try:
            self._write_end(status)
        except OSError as failed:  # a full disk: the results are shown all the same
            problems.append(
                f"how the run ended cannot be written to {self.folder}: {failed.strerror or failed}"
            )
        self.run.header, _ = read_header_or_name(self.folder)
        self._end_xml(session)
        if self.settings.reports:
            problems += self._write_reports()
        if self.settings.comment is not None:
            problems += self._write_comment(self.settings.comment)
        if problems:
            add_messages(self.config, WorkerMessages(lines=tuple(problems)))
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if place := os.environ.get(RUN_FOLDER_TO):
            Path(place).write_text(str(self.folder), encoding="utf-8", newline="\n")

    def _carry_notes(self) -> Iterator[str]:
        """Take over the notes on trials of earlier runs; give a sentence where that fails."""
        if self.info.regraded or self.info.reused:
            from pytest_agenteval.session.reuse import carry_notes

            try:
                carry_notes(self.folder, self.info.regraded or self.info.reused, bool(self.info.regraded))
            except UsageMistake as refused:
                yield str(refused)

    def _write_end(self, status: int) -> None:
        if self.info.regraded:
            from pytest_agenteval.session.reuse import record_original_judges

            record_original_judges(self.folder, self.info.regraded)
        ended_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        if self.verdict is not None:
            from pytest_agenteval.session.run_verdict import with_end, write_comparison

            # Its wall time is known from now on, also to the comparison.
            self.run.header = replace(self.run.header, ended_at=ended_at)
            self.verdict = with_end(self.verdict, self.run)
            write_comparison(self.folder, self.verdict)
        end_run(self.folder, ended_at, status, dead_processes(self.info))

    def _write_reports(self) -> Iterator[str]:
        """Write the files of ``--agent-report``; give a sentence for each that fails."""
        from pytest_agenteval.reports.report_files import write_report
        from pytest_agenteval.session.run_verdict import judged_source

        scorecards = get_registry(self.config).scorecards()
        source = judged_source(self.run, self.verdict, self.info.baseline, scorecards)
        for path in self.settings.reports:
            try:
                write_report(path, source)
                self.reports.append(path)
            except AgentEvalError as refused:  # the others are written all the same
                yield str(refused)

    def _write_comment(self, path: Path) -> Iterator[str]:
        """Write the comment of ``--agent-comment``; give a sentence where that fails."""
        from pytest_agenteval.reports.markdown_report import comment_markdown
        from pytest_agenteval.reports.task_lines import TaskFileLines

        scorecards = (line.text for line in self.scorecard_lines(WIDE, whole=False))
        remarks = [*self.side_verdicts, *self.verdict_lines, *scorecards]
        lines = TaskFileLines(self.config.rootpath)
        text = comment_markdown(self.run, self.view, lines, self.comparison, remarks)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
        except OSError as refused:
            yield f"the comment {path} cannot be written: {refused.strerror or refused}"

    def _end_xml(self, session: pytest.Session) -> None:
        """Give JUnit's file the totals of the suites, which workers do not have."""
        # The key is private to pytest, but the only way to the whole file: a property that a worker records
        # for its session is lost.
        from _pytest.junitxml import xml_key

        xml = self.config.stash.get(xml_key, None)
        if xml is None:
            return
        hide_in_xml(xml)
        cases = [case.to_xml() for case in xml.node_reporters_ordered]
        prefix_endings(cases)
        set_places(cases)
        properties, compared, old = [*suite_properties(self.view)], "", ""
        if self.comparison is not None:
            from pytest_agenteval.reports.comparison_text import headline

            compared, old = headline(self.comparison), self.comparison.old
        if self.verdict is not None:
            properties += verdict_properties(compared, old, self.verdict_lines)
        for name, value in properties:
            xml.add_global_property(name, value)
        for implementation in self.config.hook.pytest_sessionfinish.get_hookimpls():
            # If pytest's hook raised, no summary would be shown and no file cleaned up.
            if implementation.plugin is xml:
                write = partial(self._write_xml, session, xml, implementation.function)
                implementation.function = write  # type: ignore[misc]  # final, and the only way in

    def _write_xml(self, session: pytest.Session, xml: LogXML, write: Callable[[], object]) -> None:
        """Have pytest write JUnit's file; where that fails, say so and go on."""
        from _pytest.junitxml import xml_key

        try:
            write()
        except OSError as failed:
            path = Path(xml.logfile)
            with suppress(OSError):
                if path.is_file():  # it is half written
                    path.unlink()
            # Otherwise pytest would print that the file was written.
            self.config.pluginmanager.unregister(xml)
            del self.config.stash[xml_key]
            why = f"{path}: JUnit's file cannot be written ({failed.strerror or failed})"
            remark = f"{why}; write it later with: agenteval report {self.folder.name} -o junit.xml"
            add_messages(self.config, WorkerMessages(lines=(remark,)))
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def remove_unwanted(self) -> None:
        """Delete the files that only a running run needs, and the run itself where it is not saved."""
        with suppress(OSError):
            for file in (self.folder / DEAD_WORKERS, *self.folder.glob(BUDGET_FILES)):
                file.unlink(missing_ok=True)
        if (self.folder / SERVERS_FOLDER).is_dir():
            from pytest_agenteval.chat.local.vllm_chat import end_servers

            end_servers(self.folder / SERVERS_FOLDER)
        if not self.info.is_saved:
            shutil.rmtree(self.folder.parent, ignore_errors=True)

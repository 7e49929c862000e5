"""The report files of a run that has ended: by the process that speaks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_agenteval.registry.registration import get_registry
from pytest_agenteval.reports.report_files import write_report
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.session.ended_run import ended_run
from pytest_agenteval.session.run_info import RunInfo
from pytest_agenteval.session.stash import report_paths_key, run_info_key, verdict_key
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import AgentEvalError


def write_reports(config: pytest.Config) -> list[str]:
    """Write the files of ``--agent-report``; gives a sentence for each that cannot be written."""
    info: RunInfo = config.stash[run_info_key]
    source = _source(config, info)
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


def _source(config: pytest.Config, info: RunInfo) -> ReportSource:
    verdict = config.stash.get(verdict_key, None)
    scorecards = get_registry(config).scorecards()
    run = ended_run(config)
    if verdict is None or verdict.comparison is None or not verdict.comparison.suites:
        return ReportSource((run,), scorecards=scorecards)
    return ReportSource((run,), verdict.comparison, verdict.old, _old_run(info.baseline), scorecards)


def _old_run(baseline: Path | None) -> Run | None:
    """Give the run of ``--agent-baseline``; a baseline's file has no transcripts to show."""
    return load_run(baseline) if baseline is not None and baseline.is_dir() else None

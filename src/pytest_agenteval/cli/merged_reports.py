"""What is shown and written of a merged run: what pytest shows and writes of a run that it has made."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from pytest_agenteval.cli.one_run import one_run_lines
from pytest_agenteval.cli.output import STDOUT, print_lines
from pytest_agenteval.compare.comparison import Comparison
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.reports.comparison_report import comparison_markdown, verdict_lines
from pytest_agenteval.reports.github_report import comment_markdown
from pytest_agenteval.reports.junit_properties import MOST_LINE
from pytest_agenteval.reports.junit_report import write_merged_junit
from pytest_agenteval.reports.leaderboard import leaderboards_of, scorecard_lines
from pytest_agenteval.reports.markdown_report import append_summary, summary_markdown
from pytest_agenteval.reports.report_files import check_report_path, write_report
from pytest_agenteval.reports.report_source import ReportSource
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.scorecard import RegisteredScorecard, relevant_scorecards
from pytest_agenteval.reports.task_lines import TaskFileLines
from pytest_agenteval.reports.trial_choice import WORST
from pytest_agenteval.session.run_verdict import RunVerdict
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.store.runs import ROOT
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine, clamp_width, one_line

WIDE = 120
"""Columns of what is not written into a terminal."""


def write_reports(
    run: Run,
    verdict: RunVerdict | None,
    baseline: Path | None,
    junit: Sequence[Sequence[Element]],
    args: argparse.Namespace,
) -> None:
    """Show the run, and write each file that was asked for."""
    scorecards = installed_registry().scorecards()
    comparison = verdict.comparison if verdict is not None else None
    if args.json != STDOUT:
        print_lines(_screen(run, verdict, comparison, scorecards, args))
    source = _source(run, verdict, comparison, baseline, scorecards)
    for file in args.output:
        write_report(Path(file), source)
    if junit:
        write_merged_junit(Path(args.junit[0]), junit, run)
    totals = [line.text for line in _totals(run, scorecards)]
    if args.comment:
        remarks = [*(verdict.lines if verdict else ()), *totals]
        _write_comment(Path(args.comment), run, comparison, remarks)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _add_summary(Path(summary), run, verdict, comparison, scorecards)


def check_places(args: argparse.Namespace) -> None:
    """Refuse a report file that nobody could write, before anything is done."""
    for file in args.output:
        check_report_path(Path(file))


def _screen(
    run: Run,
    verdict: RunVerdict | None,
    comparison: Comparison | None,
    scorecards: Sequence[RegisteredScorecard],
    args: argparse.Namespace,
) -> Sequence[StyledLine]:
    width, verbosity = clamp_width(shutil.get_terminal_size().columns), args.verbose - args.quiet
    boards = leaderboards_of((run,), scorecards)
    headline = [*verdict_lines(comparison, width, verbosity), StyledLine("")] if comparison else []
    elsewhere = [] if Path(args.results) == ROOT else ["--results", args.results]
    steps = [["report", run.name, *elsewhere, "-v"]]
    if any(entry.ending != "passed" for entry in run.entries):
        steps.append(["show", f"{run.name}:{WORST}", *elsewhere])
    commands = [shlex.join(["agenteval", *step]) for step in steps]
    footer = _gate_lines(verdict)
    return list(one_run_lines(run, boards, commands, width, verbosity, headline, footer))


def _gate_lines(verdict: RunVerdict | None) -> list[StyledLine]:
    return [
        StyledLine(one_line(line, MOST_LINE), "red" if line.startswith("gate: broken") else "")
        for line in (verdict.lines if verdict is not None else ())
    ]


def _source(
    run: Run,
    verdict: RunVerdict | None,
    comparison: Comparison | None,
    baseline: Path | None,
    scorecards: Sequence[RegisteredScorecard],
) -> ReportSource:
    if verdict is None or comparison is None or not comparison.suites:
        return ReportSource((run,), scorecards=scorecards)
    old_run = load_run(baseline) if baseline is not None and baseline.is_dir() else None
    return ReportSource((run,), comparison, verdict.old, old_run, scorecards)


def _totals(run: Run, scorecards: Sequence[RegisteredScorecard]) -> list[StyledLine]:
    relevant = relevant_scorecards(run.entries, scorecards)
    return list(scorecard_lines(run, relevant, WIDE, whole=False)) if relevant else []


def _write_comment(path: Path, run: Run, comparison: Comparison | None, remarks: Sequence[str]) -> None:
    text = comment_markdown(run, view_of(run), TaskFileLines(Path.cwd()), comparison, remarks)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as refused:
        raise UsageMistake(f"{path}: cannot be written ({refused.strerror or refused})") from None


def _add_summary(
    path: Path,
    run: Run,
    verdict: RunVerdict | None,
    comparison: Comparison | None,
    scorecards: Sequence[RegisteredScorecard],
) -> None:
    markdown = summary_markdown(view_of(run), (), _totals(run, scorecards), _gate_lines(verdict))
    if comparison is not None:
        markdown = f"{comparison_markdown(comparison)}\n{markdown}"
    if problem := append_summary(path, markdown):
        print(problem, file=sys.stderr)

"""``agenteval merge``: the runs of shards, or of several machines, as one run, judged and reported as one."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element

from pytest_agenteval.cli.console import (
    RUN_HELP,
    STDOUT,
    add_json_option,
    add_results_option,
    indented_lines,
    print_lines,
    terminal_width,
    write_document,
    write_text,
)
from pytest_agenteval.cli.report import next_commands, one_run_lines, print_broken_scorecards
from pytest_agenteval.compare.baseline_file import find_baseline, read_baseline_run
from pytest_agenteval.records.record import Document
from pytest_agenteval.registry.installed import installed_registry
from pytest_agenteval.reports.comparison_report import verdict_lines
from pytest_agenteval.reports.junit_report import read_junit, write_merged_junit
from pytest_agenteval.reports.leaderboard import leaderboards_of, scorecard_lines
from pytest_agenteval.reports.markdown_report import append_summary, comment_markdown, summary_markdown
from pytest_agenteval.reports.report_files import check_report_path, write_report
from pytest_agenteval.reports.run_screen import gate_lines
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.reports.scorecard import relevant_scorecards
from pytest_agenteval.reports.sides import sides_of
from pytest_agenteval.reports.sides_report import side_verdict_lines, verdict_texts
from pytest_agenteval.reports.task_lines import TaskFileLines
from pytest_agenteval.session.options import RawValue, WrongValue, file_name
from pytest_agenteval.session.run_verdict import RunVerdict, judged_source, verdict_on_parts, write_comparison
from pytest_agenteval.store.merging import find_parts, gaps, join_runs, obstacles
from pytest_agenteval.store.record_files import replace_link
from pytest_agenteval.store.run_folder import LATEST, end_run, keeping_latest
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake
from pytest_agenteval.text.formatting import StyledLine

MOST_OBSTACLES = 10
# The width of what is written anywhere but into a terminal.
WIDE = 120

# pytest's exit status for a run of which something is missing.
INCOMPLETE = 2


class MergeDocument(Document, frozen=True, kw_only=True):
    """What runs were joined into, and what came of it.

    ``missing`` says what is not there of them, ``repeated`` names runs that had nothing which another had
    not. ``exit_status`` is what pytest's would be.
    """

    run: str
    path: str
    merged: tuple[str, ...]
    repeated: tuple[str, ...]
    missing: tuple[str, ...]
    planned: int
    ended: int
    gate: str
    exit_status: int


def merge_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    below = "A folder that is not a run stands for all runs below it, such as downloaded artifacts."
    parser.epilog = f"{RUN_HELP} {below}"
    add("runs", nargs="+", metavar="RUN", help="the runs to merge; they are not changed")
    add("--into", default="", metavar="NAME", help="the new run's name (default: start time and models)")  # fmt: skip  # noqa: E501
    add(
        "--partial",
        action="store_true",
        help="merge the existing trials if a shard is missing or did not end",
    )
    add("--baseline", default="", metavar="RUN", help="compare with this run or baseline file (default: the shards' baseline)")  # fmt: skip  # noqa: E501
    add("--junit", nargs="+", default=[], metavar="FILE", help="write the first file from the others, the runs' JUnit files")  # fmt: skip  # noqa: E501
    add("-o", "--output", action="append", default=[], metavar="FILE", help="write a report file, as agenteval report does; may be repeated")  # fmt: skip  # noqa: E501
    add("--comment", default="", metavar="FILE", help="write a pull request comment")
    add("-v", "--verbose", action="count", default=0, help="list every bucket, and every miss in full")
    add("-q", "--quiet", action="count", default=0, help="print only suites and warnings")
    add_json_option(parser)
    add_results_option(parser)


def merge(args: argparse.Namespace) -> int:
    """Join runs: 0 where all is well, 1 where pytest would end with it, 2 where they are not joined."""
    results = Path(args.results)
    try:
        if args.into:
            file_name(RawValue(args.into, "--into", Path()))
    except WrongValue:
        expected = "a name for a folder, of letters, digits, '.', '_' and '-'"
        raise UsageMistake(f"--into: expected {expected}; found {args.into!r}") from None
    for file in args.output:
        # Whatever can be refused is refused before anything is made.
        check_report_path(Path(file))
    if len(args.junit) == 1:
        alone = f"found {args.junit[0]} alone"
        raise UsageMistake(f"--junit: expected a file to write, and those to read; {alone}")
    junit = [read_junit(Path(file)) for file in args.junit[1:]]
    parts = find_parts(args.runs, results)
    if found := list(obstacles(parts.runs)):
        raise UsageMistake(
            "\n".join(["these runs cannot be merged:", *indented_lines(found, MOST_OBSTACLES)])
        )
    missing = tuple(gaps(parts.runs))
    if missing and not args.partial:
        hint = "--agent-resume=RUN completes a run; --partial merges what exists"
        raise UsageMistake("\n".join(["incomplete:", *(f"  {line}" for line in missing), hint]))
    baseline = _find_baseline(parts.runs, args.baseline, results)
    # Until the run is whole, ``latest`` has to lead to the run before.
    with keeping_latest(results):
        folder = join_runs(parts.runs, results, args.into, ("agenteval", "merge", *args.runs))
        try:
            merged_run = load_run(folder)
            verdict = verdict_on_parts(merged_run, Path.cwd(), baseline, "; ".join(missing))
            if verdict is not None:
                write_comparison(merged_run.folder, verdict)
            failed = any(part.header.exit_status for part in parts.runs)
            broken = verdict is not None and bool(verdict.outcome.broken)
            status = INCOMPLETE if missing else int(failed or broken)
            # The run ended when its last part ended, whenever it is merged.
            ended_at = max(part.header.ended_at for part in parts.runs) or merged_run.header.started_at
            end_run(merged_run.folder, ended_at, status)
        # After Ctrl-C too: half a run would be taken for a run.
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    replace_link(results / LATEST, folder.name)
    run = load_run(folder)
    for repeated in parts.repeated:
        print(f"{repeated.name}: left out, as another of these runs contains all of it", file=sys.stderr)
    _write_reports(run, verdict, baseline, junit, args)
    document = MergeDocument(
        run=run.name,
        path=str(run.folder),
        merged=tuple(part.name for part in parts.runs),
        repeated=tuple(part.name for part in parts.repeated),
        missing=missing,
        planned=sum(group.trials for group in run.planned),
        ended=len(run.entries),
        gate=next((line for line in verdict.lines if line.startswith("gate: ")), "") if verdict else "",
        exit_status=run.header.exit_status or 0,
    )
    if args.json:
        write_document(args.json, document)
    # 2 is for runs that are not joined at all.
    return 1 if run.header.exit_status else 0


def _find_baseline(runs: Sequence[Run], named: str, results: Path) -> Path | None:
    """Find the run or file to compare with, before ``latest`` leads to the merged run."""
    # Shards do not compare; they record the baseline that was named when they started.
    of_shards = next((run.header.shards.baseline for run in runs if run.header.shards), "")
    name = named or of_shards
    if not name:
        return None
    try:
        path = find_baseline(results, name)
        read_baseline_run(path)
    except UsageMistake as mistake:
        if named:
            raise UsageMistake(f"--baseline: {mistake}") from None
        raise UsageMistake(f"the shards' baseline: {mistake}; name another with --baseline") from None
    return path


def _write_reports(
    run: Run,
    verdict: RunVerdict | None,
    baseline: Path | None,
    junit: Sequence[Sequence[Element]],
    args: argparse.Namespace,
) -> None:
    """Show the merged run and write its files, as pytest does for a run of its own."""
    scorecards = installed_registry().scorecards()
    comparison = verdict.comparison if verdict is not None else None
    judged = gate_lines(verdict.lines if verdict is not None else ())
    boards, sides = leaderboards_of((run,), scorecards), sides_of([run])
    print_broken_scorecards(boards)
    if args.json != STDOUT:
        width, verbosity = terminal_width(), args.verbose - args.quiet
        headline = [*verdict_lines(comparison, width, verbosity), StyledLine("")] if comparison else []
        headline += side_verdict_lines(sides, width)
        commands = next_commands(run, run.name, args.results)
        print_lines(one_run_lines(run, boards, commands, width, verbosity, headline, judged))
    source = judged_source(run, verdict, baseline, scorecards)
    for file in args.output:
        write_report(Path(file), source)
    if junit:
        write_merged_junit(Path(args.junit[0]), junit, run)
    relevant = relevant_scorecards(run.entries, scorecards)
    totals = list(scorecard_lines(run, relevant, WIDE, whole=False)) if relevant else []
    if args.comment:
        gates = verdict.lines if verdict else ()
        remarks = [*verdict_texts(sides), *gates, *(line.text for line in totals)]
        lines = TaskFileLines(Path.cwd())
        write_text(args.comment, comment_markdown(run, view_of(run), lines, comparison, remarks))
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        markdown = summary_markdown(view_of(run), totals, judged, comparison, verdict_texts(sides))
        if problem := append_summary(Path(summary), markdown):
            print(problem, file=sys.stderr)

"""``agenteval merge``: the runs of shards, or of several machines, as one run, judged as one."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cli.options import RUN, add_results_option
from pytest_agenteval.cli.output import add_json_option, write_document
from pytest_agenteval.records.record import Document
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from pytest_agenteval.session.run_verdict import RunVerdict
    from pytest_agenteval.store.run_reader import Run
    from pytest_agenteval.store.run_schemas import Schema

MOST_OBSTACLES = 10
INTERRUPTED = 2
"""pytest's exit status of a run of which something is missing."""


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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    parser.epilog = f"{RUN} A folder that is no run stands for all runs below it, as of downloaded artifacts."
    add("runs", nargs="+", metavar="RUN", help="the runs that are joined; none of them is changed")
    add(
        "--into",
        default="",
        metavar="NAME",
        help="the new run's name (default: when it began, with its models)",
    )
    add("--partial", action="store_true", help="join what is there where a shard is missing or did not end")
    add("--baseline", default="", metavar="RUN", help="compare with this run, or baseline's file (default: what the shards were told)")  # fmt: skip  # noqa: E501
    add("--junit", nargs="+", default=[], metavar="FILE", help="write the first of these JUnit files from all others, those of the runs")  # fmt: skip  # noqa: E501
    add("-o", "--output", action="append", default=[], metavar="FILE", help="write a report file, as agenteval report does; may be given again")  # fmt: skip  # noqa: E501
    add("--comment", default="", metavar="FILE", help="write it as a pull request's comment")
    add("-v", "--verbose", action="count", default=0, help="every bucket, every miss at length")
    add("-q", "--quiet", action="count", default=0, help="suites, and what makes figures doubtful")
    add_json_option(parser)
    add_results_option(parser)


def merge(args: argparse.Namespace) -> int:
    """Join runs: 0 where all is well, 1 where pytest would end with it, 2 where they are not joined."""
    from pytest_agenteval.cli.merged_reports import check_places, write_reports
    from pytest_agenteval.store.file_writing import replace_link
    from pytest_agenteval.store.merging.joined_run import join_runs
    from pytest_agenteval.store.merging.parts import find_parts
    from pytest_agenteval.store.run_reader import load_run
    from pytest_agenteval.store.runs import LATEST, keeping_latest

    results = Path(args.results)
    _check_name(args.into)
    check_places(args)
    junit = _read_junit(args.junit)
    parts = find_parts(args.runs, results)
    missing = _refuse(parts.runs, partial=args.partial)
    baseline = _baseline(parts.runs, args.baseline, results)
    with keeping_latest(results):  # until the run is whole, it is nobody's latest
        folder = join_runs(parts.runs, results, args.into, ("agenteval", "merge", *args.runs))
        try:
            verdict = _judge(load_run(folder), parts.runs, baseline, missing)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    replace_link(results / LATEST, folder.name)
    run = load_run(folder)
    for repeated in parts.repeated:
        print(f"{repeated.name}: left out, for another of these runs has all of it", file=sys.stderr)
    write_reports(run, verdict, baseline, junit, args)
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
    return 1 if run.header.exit_status else 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.reports.exports.document_text import document_schema

    return document_schema("merge", MergeDocument)


def _check_name(name: str) -> None:
    from pytest_agenteval.session.options import RawValue, WrongValue, file_name

    try:
        if name:
            file_name(RawValue(name, "--into", Path()))
    except WrongValue:
        expected = "a name for a folder, of letters, digits, '.', '_' and '-'"
        raise UsageMistake(f"--into: expected {expected}; found {name!r}") from None


def _read_junit(files: Sequence[str]) -> list[list[Element]]:
    """Read the files of the parts before anything is written."""
    if not files:
        return []
    from pytest_agenteval.reports.junit_report import read_junit

    if len(files) == 1:
        raise UsageMistake(f"--junit: expected a file to write, and those to read; found {files[0]} alone")
    return [read_junit(Path(file)) for file in files[1:]]


def _refuse(runs: Sequence[Run], *, partial: bool) -> tuple[str, ...]:
    """Refuse runs that are not to be joined; gives what is missing of them, where that is allowed."""
    from pytest_agenteval.store.merging.obstacles import gaps, obstacles

    found = list(obstacles(runs))
    if found:
        lines = [f"  {line}" for line in found[:MOST_OBSTACLES]]
        if len(found) > MOST_OBSTACLES:
            lines.append(f"  and {len(found) - MOST_OBSTACLES} more")
        raise UsageMistake("\n".join(["these runs are not joined:", *lines]))
    missing = tuple(gaps(runs))
    if missing and not partial:
        hint = "--agent-resume=RUN goes on with a run; --partial joins what is there"
        raise UsageMistake("\n".join(["not all is here:", *(f"  {line}" for line in missing), hint]))
    return missing


def _baseline(runs: Sequence[Run], named: str, results: Path) -> Path | None:
    """Find what the run is compared with, before the merged run is the latest."""
    from pytest_agenteval.compare.baseline import find_baseline, read_side

    of_shards = next((run.header.shards.baseline for run in runs if run.header.shards), "")
    name = named or of_shards
    if not name:
        return None
    try:
        path = find_baseline(results, name)
        read_side(path)
    except UsageMistake as mistake:
        if named:
            raise UsageMistake(f"--baseline: {mistake}") from None
        raise UsageMistake(f"the shards' baseline: {mistake}; --baseline names another place") from None
    return path


def _judge(
    run: Run, parts: Sequence[Run], baseline: Path | None, missing: Sequence[str]
) -> RunVerdict | None:
    """Compare the merged run and judge its gates, and write down how it ended."""
    from pytest_agenteval.session.run_verdict import verdict_on_parts, write_comparison
    from pytest_agenteval.store.runs import end_run

    verdict = verdict_on_parts(run, Path.cwd(), baseline, "; ".join(missing))
    if verdict is not None:
        write_comparison(run.folder, verdict)
    failed = any(part.header.exit_status for part in parts)
    broken = verdict is not None and bool(verdict.outcome.broken)
    status = INTERRUPTED if missing else int(failed or broken)
    ended_at = max(part.header.ended_at for part in parts) or run.header.started_at
    end_run(run.folder, ended_at, status)
    return verdict

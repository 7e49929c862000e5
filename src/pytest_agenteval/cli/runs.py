"""``agenteval runs``: which runs are kept, what each scored, and how it stands beside its baseline."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_agenteval.cli.options import add_results_option, count
from pytest_agenteval.cli.output import STDOUT, add_json_option, write_document
from pytest_agenteval.cli.pager import page_lines
from pytest_agenteval.cli.prune import add_prune_options, prune
from pytest_agenteval.reports.exports.document_text import document_schema
from pytest_agenteval.reports.run_list import (
    ListedRun,
    RunListDocument,
    listed_run,
    run_list_document,
    run_list_table,
)
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.store.run_reader import first_unreadable, load_run
from pytest_agenteval.store.run_schemas import Schema
from pytest_agenteval.store.runs import RunFolder, list_runs
from pytest_agenteval.text.formatting import StyledLine, clamp_width

MOST = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    number = parser.add_mutually_exclusive_group().add_argument
    number(
        "-n",
        "--number",
        type=count,
        default=MOST,
        metavar="N",
        help=f"how many, the newest first (default: {MOST})",
    )
    number("--all", action="store_true", help="all of them")
    add_json_option(parser)
    add_prune_options(parser)
    add("--no-pager", action="store_true", help="print it all, also on a terminal")
    add_results_option(parser)


def runs(args: argparse.Namespace) -> int:
    """List runs, newest first; what cannot be read of one is said, and hides no other."""
    if args.prune:
        return prune(args)
    stored = list_runs(Path(args.results))
    chosen = stored if args.all else stored[: args.number]
    listed = [_read(folder) for folder in chosen]
    if args.json:
        write_document(args.json, run_list_document(listed, len(stored)))
    if args.json != STDOUT:
        page_lines(_lines(listed, args.results, len(stored)), paged=not args.no_pager)
    for run in listed:
        for odd in run.odd:
            print(f"{run.name}: {odd}", file=sys.stderr)
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    return document_schema("runs", RunListDocument)


def _lines(listed: Sequence[ListedRun], results: str, stored: int) -> Iterable[StyledLine]:
    if not listed:
        return [StyledLine(f"no runs in {results}")]
    width = clamp_width(shutil.get_terminal_size().columns)
    return table_lines(run_list_table(listed, results, stored), width)


def _read(folder: RunFolder) -> ListedRun:
    """Read a run and let it go: a thousand of them would not fit into memory side by side."""
    run = load_run(folder.path)
    return listed_run(run, tuple(first_unreadable(run.odd)))

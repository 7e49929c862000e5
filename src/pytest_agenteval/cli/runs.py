"""``agenteval runs``: which runs are kept, what each scored, and how it stands beside its baseline."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from pytest_agenteval.cli.output import STDOUT, write_text
from pytest_agenteval.cli.pager import page_lines
from pytest_agenteval.reports.run_list import ListedRun, listed_run, run_list_json, run_list_table
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.reports.text_width import clamp_width
from pytest_agenteval.store.run_reader import first_unreadable, load_run
from pytest_agenteval.store.runs import ROOT, RunFolder, list_runs

MOST = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    number = parser.add_mutually_exclusive_group().add_argument
    number("-n", "--number", type=_count, default=MOST, metavar="N", help=f"how many (default: {MOST})")
    number("--all", action="store_true", help="all of them")
    add("--json", action="store_true", help="write all figures as JSON")
    add("--no-pager", action="store_true", help="print it all, also on a terminal")
    add("--results", default=str(ROOT), metavar="DIR", help="the folder that keeps them")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1; found {text}")
    return int(text)


def runs(args: argparse.Namespace) -> int:
    """List runs, newest first; what cannot be read of one is said, and hides no other."""
    stored = list_runs(Path(args.results))
    chosen = stored if args.all else stored[: args.number]
    listed = [_read(folder) for folder in chosen]
    if args.json:
        write_text(STDOUT, json.dumps(run_list_json(listed), ensure_ascii=False, indent=2) + "\n")
    elif listed:
        width = clamp_width(shutil.get_terminal_size().columns)
        table = run_list_table(listed, args.results, len(stored))
        page_lines(table_lines(table, width), paged=not args.no_pager)
    else:
        print(f"no runs in {args.results}")
    for run in listed:
        for odd in run.odd:
            print(f"{run.name}: {odd}", file=sys.stderr)
    return 0


def _read(folder: RunFolder) -> ListedRun:
    """Read a run and let it go: a thousand of them would not fit into memory side by side."""
    run = load_run(folder.path)
    return listed_run(run, tuple(first_unreadable(run.odd)))

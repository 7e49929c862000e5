"""``agenteval sql``: one question to stored runs, in SQL."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cli.options import RUN, add_results_option, find_named_run
from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, write_document, write_text
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pytest_agenteval.store.run_reader import Run
    from pytest_agenteval.store.run_schemas import Schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    parser.epilog = (
        'As in: agenteval sql "select bucket, avg(score) from trials group by 1". Tables: runs, tasks, '
        f"trials, grades, calls, messages; docs/data.md has their columns. {RUN}"
    )
    add("query", metavar="QUERY", help="one query in DuckDB's SQL")
    add("runs", nargs="*", metavar="RUN", help="the runs to ask (default: latest)")
    add("--all", action="store_true", help="ask all runs; the column run tells them apart")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV, with all digits")
    add_json_option(form)
    add_results_option(parser)


def sql(args: argparse.Namespace) -> int:
    """Print what the query gives."""
    from pytest_agenteval.reports.exports.sql import query_document, query_runs, result_csv, result_lines

    result = query_runs(args.query, _runs(_folders(args)))
    if args.csv:
        write_text(STDOUT, result_csv(result))
    if args.json:
        write_document(args.json, query_document(result))
    if not args.csv and args.json != STDOUT:
        print_lines(result_lines(result, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.reports.exports.document_text import document_schema
    from pytest_agenteval.reports.exports.sql import QueryDocument

    return document_schema("sql", QueryDocument)


def _folders(args: argparse.Namespace) -> Iterable[Path]:
    """Find the runs that are meant, each once, before any of them is read."""
    from pytest_agenteval.store.runs import list_runs

    results = Path(args.results)
    if args.all and args.runs:
        raise UsageMistake(f"--all asks every run in {results}: leave out {', '.join(args.runs)}")
    if args.all:
        return [stored.path for stored in list_runs(results)]
    return dict.fromkeys(find_named_run(results, name).resolve() for name in args.runs or ["latest"])


def _runs(folders: Iterable[Path]) -> Iterator[Run]:
    """Read one run after the other, and say what could not be read of each."""
    from pytest_agenteval.store.run_reader import first_unreadable, load_run

    for folder in folders:
        run = load_run(folder)
        yield run
        for odd in first_unreadable(run.odd):
            print(f"{run.folder}: {odd}", file=sys.stderr)

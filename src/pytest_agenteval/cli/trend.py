"""``agenteval trend``: a suite over its last runs, and the tasks that they make suspect."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cli.options import AGAIN, OF_MODEL, OF_VARIANT, add_results_option
from pytest_agenteval.cli.output import STDOUT, add_json_option, print_lines, write_document
from pytest_agenteval.text.errors import UsageMistake, nearest_names

if TYPE_CHECKING:
    from pytest_agenteval.reports.trend import Trend
    from pytest_agenteval.store.run_schemas import Schema
    from pytest_agenteval.store.runs import RunFolder

LAST = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="a suite's name (default: every suite that was run)")
    add("--last", type=int, default=LAST, metavar="N", help=f"how many of its runs (default: {LAST})")
    add("--model", action="append", default=[], metavar="MODEL", help=OF_MODEL + AGAIN)
    add("--variant", action="append", default=[], metavar="NAME", help=OF_VARIANT + AGAIN)
    add_json_option(parser)
    add_results_option(parser)


def trend(args: argparse.Namespace) -> int:
    """Say how suites did in their last runs, oldest first; a UsageMistake names what there is instead."""
    from pytest_agenteval.reports.trend import TrendDocument
    from pytest_agenteval.reports.trend_screen import trend_lines
    from pytest_agenteval.text.formatting import StyledLine, clamp_width

    if args.last < 1:
        raise UsageMistake(f"--last: expected a whole number, 1 or more; found {args.last}")
    trends = _trends(args)
    if args.json:
        write_document(args.json, TrendDocument(suites=tuple(trends)))
    if args.json != STDOUT:
        width, ascii_only = clamp_width(shutil.get_terminal_size().columns), not _knows_blocks()
        for number, trend in enumerate(trends):
            print_lines([StyledLine("")] if number else [])
            print_lines(trend_lines(trend, width, ascii_only))
    return 0


def json_schema() -> Schema:
    """Describe what ``--json`` writes."""
    from pytest_agenteval.reports.exports.document_text import document_schema
    from pytest_agenteval.reports.trend import TrendDocument

    return document_schema("trend", TrendDocument)


def _trends(args: argparse.Namespace) -> list[Trend]:
    from pytest_agenteval.reports.trend import last_runs, suite_names, trend_of
    from pytest_agenteval.store.runs import whole_runs

    folders = whole_runs(Path(args.results))
    if not folders:
        raise UsageMistake(f"there are no runs in {args.results} yet")
    names = suite_names(folders)
    if args.suite is not None and args.suite not in names:
        raise UsageMistake(
            f"no run of the suite {args.suite!r} in {args.results}; {_unknown_suite_text(args.suite, names)}"
        )
    trends = [
        trend_of(last_runs(folders, suite, args.last, args.model), suite, args.model, args.variant)
        for suite in ([args.suite] if args.suite is not None else names)
    ]
    trends = [trend for trend in trends if trend.series]
    if not trends:
        raise UsageMistake(f"no such runs in {args.results}; {_known_models(folders)}")
    return trends


def _unknown_suite_text(suite: str, names: Sequence[str]) -> str:
    return f"suites that were run: {nearest_names(suite, names)}" if names else "none was run"


def _known_models(folders: Sequence[RunFolder]) -> str:
    """Name what models and variants may be asked for."""
    models = dict.fromkeys(model.name for folder in folders for model in folder.header.models)
    variants = dict.fromkeys(name for folder in folders for name in folder.header.variants if name)
    beside = f"; variants: {', '.join(variants)}" if variants else ""
    return f"models of runs: {', '.join(models) or 'none'}{beside}"


def _knows_blocks() -> bool:
    """Whether the standard output's encoding has the characters that lines are drawn with."""
    from pytest_agenteval.reports.trend_screen import GAP, LEVELS

    try:
        (LEVELS + GAP).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

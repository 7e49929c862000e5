"""``agenteval runs``, ``trend`` and ``sql``: stored runs as a list, over time, removed, and queried."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.cli.console import (
    AGAIN_HELP,
    MODEL_HELP,
    RUN_HELP,
    STDOUT,
    VARIANT_HELP,
    add_json_option,
    add_results_option,
    apart,
    find_named_run,
    page_lines,
    positive_int,
    print_lines,
    print_unreadable,
    terminal_width,
    write_document,
    write_result,
    write_text,
)
from pytest_agenteval.compare.baseline_file import baseline_files
from pytest_agenteval.processes.files import PresenceLock
from pytest_agenteval.reports.run_list import RunListDocument, listed_run, run_list_table
from pytest_agenteval.reports.tables import table_lines
from pytest_agenteval.store.pruning import Pruning, left_behind, plan_pruning, remove_run
from pytest_agenteval.store.run_folder import (
    HOLD_FILE,
    RunFolder,
    latest_first,
    list_runs,
    read_header_or_name,
    read_json,
    whole_runs,
)
from pytest_agenteval.store.run_reader import Run, load_run
from pytest_agenteval.text.errors import UsageMistake, nearest_names, writing
from pytest_agenteval.text.formatting import StyledLine, format_moment, pluralize

if TYPE_CHECKING:
    from pytest_agenteval.reports.trend import Trend

YOUNG_DAYS, NEWEST = 14, 20
UNITS = ("B", "kB", "MB", "GB", "TB")

MOST_RUNS, TREND_RUNS = 20, 10


def _add_prune_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("removing old runs").add_argument
    add("--prune", action="store_true", help="list runs that may be removed: old, unnamed, without comments, no baseline, not used by others, ended")  # fmt: skip  # noqa: E501
    add("--yes", action="store_true", help="with --prune: remove these runs")
    add("--keep-days", type=positive_int, default=YOUNG_DAYS, metavar="N", help=f"keep runs of the last N days (default: {YOUNG_DAYS})")  # fmt: skip  # noqa: E501
    add("--keep-newest", type=positive_int, default=NEWEST, metavar="N", help=f"keep the newest N runs (default: {NEWEST})")  # fmt: skip  # noqa: E501


def prune(args: argparse.Namespace) -> int:
    """Print which runs may go and why others stay; with ``--yes`` remove them."""
    if args.json:
        raise UsageMistake("--prune cannot write JSON: remove --json")
    root = Path(args.results)
    plan = plan_pruning(
        root,
        young=timedelta(days=args.keep_days),
        newest=args.keep_newest,
        blessed=set(_baseline_runs(Path.cwd())),
        is_held=_is_in_use,
    )
    print_lines(map(StyledLine, _pruning_lines(plan, root)))
    if plan.removable and not args.yes:
        print("Nothing was removed: add --yes to remove them.")
    if not (plan.removable and args.yes):
        return 0
    failed = 0
    for folder in plan.removable:
        held = _lock_file(folder)
        try:
            # A pytest may have taken the run up again since the plan was made.
            if not held.claim(0.0):
                print(f"{folder.name}: not removed: still running", file=sys.stderr)
                continue
            remove_run(folder)
        except OSError as refused:
            failed += 1
            print(f"{folder.name}: cannot be removed ({refused.strerror})", file=sys.stderr)
        finally:
            held.release()
    print(f"Removed {pluralize(len(plan.removable) - failed, 'run')} from {root}.")
    return 1 if failed else 0


def _lock_file(folder: Path) -> PresenceLock:
    return PresenceLock(folder / HOLD_FILE)


def _is_in_use(folder: Path) -> bool:
    """Whether a pytest is at work on a run; the check changes nothing."""
    return _lock_file(folder).is_held()


def _baseline_runs(below: Path) -> Iterator[str]:
    """Name the runs of which the baselines below a folder were made."""
    for path in baseline_files(below):
        try:
            head = read_json(path)
        except ValueError:  # a merge conflict, perhaps: what it names is not known
            raise UsageMistake(f"{path}: this baseline cannot be read, so no run is removed") from None
        runs = head.get("runs")
        names = (head.get("run"), *(runs if isinstance(runs, list) else ()))
        yield from (name for name in names if isinstance(name, str))


def _pruning_lines(plan: Pruning, root: Path) -> Iterator[str]:
    stored = len(plan.removable) + len(plan.retained)
    if plan.removable:
        total = _size_text(plan.size)
        yield f"{len(plan.removable)} of {pluralize(stored, 'run')} in {root} can be removed, {total}:"
        widest = max(len(folder.name) for folder in plan.removable)
        for folder, size in plan.removable.items():
            when = format_moment(read_header_or_name(folder)[0].started_at)
            yield f"  {folder.name:{widest}}  {when}  {_size_text(size):>8}"
    else:
        yield f"none of {pluralize(stored, 'run')} in {root} can be removed"
    # The full reason names the run that refers to this one, so hardly two would be alike.
    reasons = Counter("referred to" if why.startswith("referred") else why for why in plan.retained.values())
    if reasons:
        yield "kept: " + ", ".join(f"{number} {why}" for why, number in reasons.items())
    for path in left_behind(root):
        yield f"left by an interrupted removal: {path}"


def _size_text(size: float) -> str:
    unit = 0
    while size >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} {UNITS[unit]}" if unit == 0 or size >= 10 else f"{size:.1f} {UNITS[unit]}"


def runs_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    number = parser.add_mutually_exclusive_group().add_argument
    number("-n", "--number", type=positive_int, default=MOST_RUNS, metavar="N", help=f"how many of the newest runs (default: {MOST_RUNS})")  # fmt: skip  # noqa: E501
    number("--all", action="store_true", help="list all runs")
    add_json_option(parser)
    _add_prune_options(parser)
    add("--no-pager", action="store_true", help="print without a pager")
    add_results_option(parser)


def runs(args: argparse.Namespace) -> int:
    """List runs, newest first; a run that cannot be read in part hides no other."""
    if args.prune:
        return prune(args)
    stored = latest_first(list_runs(Path(args.results)))
    chosen = stored if args.all else stored[: args.number]
    # One after the other: a thousand whole runs would not fit into memory.
    listed = [listed_run(folder.path) for folder in chosen]
    if args.json:
        figures = tuple(each.figures for each in listed)
        write_document(args.json, RunListDocument(stored=len(stored), runs=figures))
    if args.json != STDOUT:
        lines: Iterable[StyledLine] = [StyledLine(f"no runs in {args.results}")]
        if listed:
            lines = table_lines(run_list_table(listed, args.results, len(stored)), terminal_width())
        page_lines(lines, paged=not args.no_pager)
    for each in listed:
        for problem in each.figures.odd:
            print(f"{each.figures.name}: {problem}", file=sys.stderr)
    return 0


def sql_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.epilog = (
        'Example: agenteval sql "select bucket, avg(score) from trials group by 1". Tables: runs, tasks, '
        f"trials, grades, calls, messages; docs/reference/data.md has their columns. {RUN_HELP}"
    )
    add("query", metavar="QUERY", help="one query in DuckDB's SQL")
    add("runs", nargs="*", metavar="RUN", help="the runs to query (default: latest)")
    add("--all", action="store_true", help="query all runs; the column `run` names each row's run")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV, with all digits")
    add_json_option(form)
    add_results_option(parser)


def sql(args: argparse.Namespace) -> int:
    from pytest_agenteval.reports.exports import row_files

    results = Path(args.results)
    if args.all and args.runs:
        raise UsageMistake(f"--all queries every run in {results}: remove {', '.join(args.runs)}")
    # All runs are found before any is read, each once though it may have been named twice.
    paths = [stored.path for stored in list_runs(results)] if args.all else []
    named = [] if args.all else [find_named_run(results, name).resolve() for name in args.runs or ["latest"]]
    result = row_files.query_runs(args.query, _queried_runs(dict.fromkeys(paths + named)))
    if args.csv:
        write_text(STDOUT, row_files.result_csv(result))
    if args.json:
        write_document(args.json, row_files.query_document(result))
    if not args.csv and args.json != STDOUT:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print_lines(row_files.result_lines(result, width))
    return 0


def _queried_runs(folders: Iterable[Path]) -> Iterator[Run]:
    """Read one run after the other, and print what could not be read of each."""
    for folder in folders:
        run = load_run(folder)
        yield run
        # Only after the query has read its trials is it known which are lost.
        print_unreadable(run.folder, run)


def trend_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("suite", nargs="?", metavar="SUITE", help="a suite's name (default: every suite with runs)")
    add("--last", type=positive_int, default=TREND_RUNS, metavar="N", help=f"how many of its runs (default: {TREND_RUNS})")  # fmt: skip  # noqa: E501
    add("--model", action="append", default=[], metavar="MODEL", help=MODEL_HELP + AGAIN_HELP)
    add("--variant", action="append", default=[], metavar="NAME", help=VARIANT_HELP + AGAIN_HELP)
    add("-o", "--output", metavar="FILE", help="write a page with charts, FILE.html")
    add_json_option(parser)
    add_results_option(parser)


def trend(args: argparse.Namespace) -> int:
    """Show suites over their last runs, oldest first; a UsageMistake names what there is instead."""
    from pytest_agenteval.reports.trend import TrendDocument, suite_names, trends_of
    from pytest_agenteval.reports.trend_screen import trend_lines

    page = Path(args.output or "")
    if args.output and (page.suffix.lower() != ".html" or page.is_dir()):
        raise UsageMistake(f"{page}: expected a file that ends in .html")
    folders = whole_runs(Path(args.results))
    if not folders:
        raise UsageMistake(f"there are no runs in {args.results} yet")
    names = suite_names(folders)
    if args.suite is not None and args.suite not in names:
        near = f"suites that were run: {nearest_names(args.suite, names)}" if names else "none was run"
        raise UsageMistake(f"no run of the suite {args.suite!r} in {args.results}; {near}")
    suites = names if args.suite is None else [args.suite]
    found = trends_of(folders, suites, args.last, args.model, args.variant)
    # --model and --variant may leave nothing of a suite.
    trends = [trend for trend in found if trend.series]
    if not trends and not (args.model or args.variant):
        raise UsageMistake(f"no agent's trial has ended in the runs of {args.results} yet")
    if not trends:
        raise UsageMistake(f"no such runs in {args.results}; {_known_models(folders)}")
    document = TrendDocument(suites=tuple(trends))
    if args.output:
        _write_trend_page(page, trends)
        if args.json:
            write_document(args.json, document)
        if args.json != STDOUT:
            print(page)
        return 0
    width, ascii_only = terminal_width(), not _knows_blocks()
    write_result(args.json, document, apart(trend_lines(trend, width, ascii_only) for trend in trends))
    return 0


def _write_trend_page(page: Path, trends: Sequence[Trend]) -> None:
    # Imported here: few look at a page, and it brings jinja2.
    from pytest_agenteval.reports.trend_page import write_trend_page

    with writing(page):
        page.parent.mkdir(parents=True, exist_ok=True)
        write_trend_page(page, trends)


def _known_models(folders: Sequence[RunFolder]) -> str:
    models = dict.fromkeys(model.name for folder in folders for model in folder.header.models)
    variants = dict.fromkeys(name for folder in folders for name in folder.header.variants if name)
    beside = f"; variants: {', '.join(variants)}" if variants else ""
    return f"models of runs: {', '.join(models) or 'none'}{beside}"


def _knows_blocks() -> bool:
    """Whether the encoding of the standard output has the characters that draw the lines."""
    from pytest_agenteval.reports.trend_screen import BLOCKS

    try:
        BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

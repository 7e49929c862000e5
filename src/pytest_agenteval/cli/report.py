"""``agenteval report``: stored runs as tables, side by side, or as the files that a benchmark writes."""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pytest_agenteval.cli.output import STDOUT, print_lines, write_text
from pytest_agenteval.errors import AgentEvalError, UsageMistake
from pytest_agenteval.redaction.secrets import KNOWN_SECRETS

if TYPE_CHECKING:
    from pytest_agenteval.compare.comparison import Comparison
    from pytest_agenteval.registry import Registry
    from pytest_agenteval.reports.leaderboard.standings import Leaderboard
    from pytest_agenteval.reports.scorecard import RegisteredScorecard, ReportOption
    from pytest_agenteval.reports.tables import ReportTable
    from pytest_agenteval.reports.text_width import StyledLine
    from pytest_agenteval.store.run_reader import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    from pytest_agenteval.discovery import installed_registry

    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a run's folder, its name or how that begins, latest, or MODEL@YYYYMMDD; several are put side by side")  # fmt: skip  # noqa: E501
    add("--results", default=".agenteval/runs", metavar="DIR", help="the folder that keeps runs")
    add("-v", "--verbose", action="count", default=0, help="of one run: every bucket with all figures, every miss at length")  # fmt: skip  # noqa: E501
    add(
        "-q", "--quiet", action="count", default=0, help="of one run: suites, and what makes figures doubtful"
    )
    add("--json", metavar="FILE", help="write all figures as JSON (- for the standard output)")
    add("--markdown", metavar="FILE", help="write the tables as Markdown (- for the standard output)")
    registry = installed_registry()
    add(
        "--as",
        dest="format",
        choices=registry.report_formats,
        help="write the files that this benchmark writes",
    )
    add("-o", "--output", metavar="DIR", help="where to write them")
    parser.set_defaults(registry=registry, scorecard_options=add_scorecard_options(parser, registry))


def add_scorecard_options(
    parser: argparse.ArgumentParser, registry: Registry
) -> dict[str, list[ReportOption]]:
    """Declare the options of all scorecards, and give those of each by its name.

    What one benchmark has wrong keeps nobody from the reports of another: its options are left out, and a
    line says so.
    """
    options: dict[str, list[ReportOption]] = {}
    for scorecard in registry.scorecards():
        options[scorecard.name] = []
        try:
            for option in _check_options(scorecard.options(), scorecard.name):
                parser.add_argument(
                    option.flag,
                    dest=option.flag,  # as no argument of ours is called
                    metavar=option.metavar,
                    help=option.help.replace("%", "%%"),
                )
                options[scorecard.name].append(option)
        except argparse.ArgumentError as taken:
            _complain(f"an option of the scorecard {scorecard.name!r} is left out: {taken}")
        except UsageMistake as broken:
            _complain(str(broken))
    for line in registry.broken_benchmarks:
        _complain(line)
    return options


def _check_options(options: object, scorecard: str) -> Iterator[ReportOption]:
    """Give a scorecard's options one by one; raises UsageMistake at what is none."""
    from pytest_agenteval.reports.scorecard import ReportOption

    if not isinstance(options, tuple | list):
        raise UsageMistake(f"options of the scorecard {scorecard!r}: expected a list; found {options!r:.80}")
    for option in options:
        if not isinstance(option, ReportOption) or not option.flag.startswith("--"):
            expected = 'a ReportOption whose flag begins with "--"'
            raise UsageMistake(
                f"options of the scorecard {scorecard!r}: expected {expected}; found {option!r:.80}"
            )
        yield option


def _complain(line: str) -> None:
    print(f"agenteval: {KNOWN_SECRETS.text(line)}", file=sys.stderr)


def report(args: argparse.Namespace) -> int:
    """Say what runs found, or write it as a benchmark does."""
    if (args.format is None) != (args.output is None):
        raise UsageMistake("--as NAME and -o DIR belong together: as whose files, and where to")
    if args.format is not None and (args.json or args.markdown):
        raise UsageMistake("--as NAME writes files of its own: leave out --json and --markdown")
    if args.json == args.markdown == STDOUT:
        raise UsageMistake("--json - and --markdown - would mix on the standard output: write one to a file")
    scorecards = [_set_up(scorecard, args) for scorecard in args.registry.scorecards()]
    runs = list(_runs(args.runs, Path(args.results)))
    status = _write_files(runs, args) if args.format else _show(runs, scorecards, args)
    if len(runs) > 1 or args.format or STDOUT in (args.json, args.markdown):  # else it stands below the table
        _print_oddities(runs)
    return status


def _set_up(scorecard: RegisteredScorecard, args: argparse.Namespace) -> RegisteredScorecard:
    """Give a scorecard with what the command line says for its options."""
    settings: dict[str, object] = {}
    for option in args.scorecard_options[scorecard.name]:
        text = getattr(args, option.flag)
        if text is not None:
            try:
                settings[option.flag.lstrip("-").replace("-", "_")] = option.parse(text)
            except ValueError as refused:
                raise UsageMistake(f"{option.flag}: {refused}") from None
    return replace(scorecard, settings=settings)


def _runs(names: Iterable[str], results: Path) -> Iterator[Run]:
    from pytest_agenteval.store.run_reader import load_run
    from pytest_agenteval.store.runs import find_run

    folders = dict.fromkeys(find_run(results, name).resolve() for name in names)
    here = Path.cwd().resolve()
    for folder in folders:
        yield load_run(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def _print_oddities(runs: Iterable[Run]) -> None:
    """Say what could not be read of runs, beside whatever else is printed."""
    from pytest_agenteval.store.run_reader import first_unreadable

    for run in runs:
        for odd in first_unreadable(run.odd):
            print(f"{run.folder}: {odd}", file=sys.stderr)


def _write_files(runs: Sequence[Run], args: argparse.Namespace) -> int:
    write = args.registry.report_format_named(args.format)
    try:
        return _print_paths(write(runs, Path(args.output)), args)
    except (AgentEvalError, BrokenPipeError):
        raise
    except Exception as raised:  # an author's code may raise anything
        from pytest_agenteval.engine.exceptions import user_frames_first

        trace = user_frames_first(raised).rstrip()
        raise UsageMistake(f"the report format {args.format!r} raised:\n{trace}") from raised


def _print_paths(paths: object, args: argparse.Namespace) -> int:
    """Print what a format wrote; one that is a generator writes meanwhile."""
    if not isinstance(paths, Iterable):
        raise UsageMistake(f"--as {args.format}: expected the paths that it wrote; found {paths!r:.80}")
    for path in paths:
        print(path)
    return 0


def _show(runs: Sequence[Run], scorecards: Sequence[RegisteredScorecard], args: argparse.Namespace) -> int:
    from pytest_agenteval.reports.leaderboard.standings import leaderboards_json, leaderboards_of
    from pytest_agenteval.reports.text_width import clamp_width

    boards = leaderboards_of(runs, scorecards)
    broken = {standing.broken for board in boards for standing in board.standings if standing.broken}
    for line in sorted(broken):
        _complain(line)
    if args.json:
        data = leaderboards_json(boards)
        write_text(args.json, json.dumps(data, ensure_ascii=False, indent=2) + "\n")
    if args.markdown:
        write_text(args.markdown, _markdown(runs, boards))
    if STDOUT not in (args.json, args.markdown):
        width = clamp_width(shutil.get_terminal_size().columns)
        print_lines(_lines(runs, boards, args, width))
    return 1 if broken else 0


def _lines(
    runs: Sequence[Run], boards: Sequence[Leaderboard], args: argparse.Namespace, width: int
) -> Iterable[StyledLine]:
    """Give one run as after pytest; several side by side."""
    if len(runs) > 1:
        return _lines_of_several(runs, boards, args, width)
    from pytest_agenteval.cli.one_run import one_run_lines
    from pytest_agenteval.store.runs import ROOT

    elsewhere = [] if Path(args.results) == ROOT else ["--results", args.results]
    name = shlex.join([args.runs[0], *elsewhere])
    return one_run_lines(runs[0], boards, name, width, args.verbose - args.quiet)


def _lines_of_several(
    runs: Sequence[Run], boards: Sequence[Leaderboard], args: argparse.Namespace, width: int
) -> Iterator[StyledLine]:
    from pytest_agenteval.reports.comparison.screen import comparison_lines
    from pytest_agenteval.reports.leaderboard.board_tables import board_lines
    from pytest_agenteval.reports.text_width import StyledLine

    comparison = _comparison(runs)
    if comparison is not None:
        yield from comparison_lines(comparison, width, whole=args.verbose > 0)
    left = _boards_beside(boards, comparison)
    if left and comparison is not None:
        yield StyledLine("")
    yield from board_lines(left, width)


def _boards_beside(boards: Sequence[Leaderboard], comparison: Comparison | None) -> list[Leaderboard]:
    """Give the boards to draw: a suite that is compared needs none, unless a benchmark has more to say."""
    compared = {suite.name for suite in comparison.suites} if comparison else set()
    return [board for board in boards if board.suite not in compared or board.has_scorecard]


def _comparison(runs: Sequence[Run]) -> Comparison | None:
    """Compare two runs, the first being the old one; None of any other number, or where nothing is common."""
    if len(runs) != 2:
        return None
    from pytest_agenteval.compare.comparison import compare_sides
    from pytest_agenteval.compare.sides import side_of

    comparison = compare_sides(*map(side_of, runs))
    return comparison if comparison.suites else None


def _markdown(runs: Sequence[Run], boards: Sequence[Leaderboard]) -> str:
    from pytest_agenteval.reports.run_markdown import summary_markdown
    from pytest_agenteval.reports.tables import table_markdown
    from pytest_agenteval.reports.view import view_of

    parts = [summary_markdown(view_of(runs[0]))] if len(runs) == 1 else []
    comparison = _comparison(runs)
    if comparison is not None:
        from pytest_agenteval.reports.comparison.documents import comparison_markdown

        parts.append(comparison_markdown(comparison))
    left = _boards_beside(boards, comparison)
    return "\n".join([*parts, *(f"{table_markdown(table)}\n" for table in _tables(runs, left))])


def _tables(runs: Sequence[Run], boards: Sequence[Leaderboard]) -> Iterator[ReportTable]:
    """Give the scorecard of each model of a single run; a board wherever there is more than one standing."""
    from pytest_agenteval.reports.leaderboard.board_tables import leaderboard_tables
    from pytest_agenteval.reports.leaderboard.scorecard_tables import scorecard_tables

    for board in boards:
        if len(runs) == 1:
            for standing in board.standings:
                if standing.scorecard:
                    yield from scorecard_tables(standing, standing.scorecard)
        if len(runs) > 1 or (board.has_scorecard and len(board.standings) > 1):
            yield from leaderboard_tables(board)

"""``agenteval report``: stored runs as tables, side by side, or in another benchmark's shape."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_agenteval.errors import UsageMistake
from pytest_agenteval.redaction import KNOWN

if TYPE_CHECKING:
    from pytest_agenteval.reports.leaderboard.standings import Board
    from pytest_agenteval.reports.tables import Table
    from pytest_agenteval.reports.text_width import Line
    from pytest_agenteval.store.run_reader import Run

STDOUT = "-"
KO_AGENTBENCH = "ko-agentbench"
LOOKS = {"bold": "1", "dim": "2", "red": "31", "yellow": "33"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb is told."""
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a run's folder, its name or how that begins, latest, or MODEL@YYYYMMDD; several are put side by side")  # fmt: skip  # noqa: E501
    add("--results", default=".agenteval/runs", metavar="DIR", help="the folder that keeps runs")
    add("--json", metavar="FILE", help="write all figures as JSON (- for the standard output)")
    add("--markdown", metavar="FILE", help="write the tables as Markdown (- for the standard output)")
    add("--weights", metavar="PART=N,...", help="what parts weigh in the Korean benchmark's composite (default: basic=0.4,robustness=0.2,efficiency=0.25,context=0.15)")  # fmt: skip  # noqa: E501
    add("--as", dest="shape", choices=[KO_AGENTBENCH], help="write the files that this benchmark writes")
    add("-o", "--output", metavar="DIR", help="where to write them")


def report(args: argparse.Namespace) -> int:
    """Say what runs found, or write it in a benchmark's shape."""
    if (args.shape is None) != (args.output is None):
        raise UsageMistake("--as SHAPE and -o DIR belong together: in which shape, and where to")
    if args.shape is not None and (args.json or args.markdown):
        raise UsageMistake("--as SHAPE writes files of its own: leave out --json and --markdown")
    if args.json == args.markdown == STDOUT:
        raise UsageMistake("--json - and --markdown - would mix on the standard output: write one to a file")
    weights = _weights(args.weights)
    runs = list(_runs(args.runs, Path(args.results)))
    status = _in_shape(runs, Path(args.output)) if args.shape else _shown(runs, weights, args)
    if len(runs) > 1 or args.shape or STDOUT in (args.json, args.markdown):  # else it stands below the table
        _tell_odd(runs)
    return status


def _runs(named: Iterable[str], results: Path) -> Iterator[Run]:
    from pytest_agenteval.store.run_reader import load_run
    from pytest_agenteval.store.runs import find_run

    folders = dict.fromkeys(find_run(results, name).resolve() for name in named)
    here = Path.cwd().resolve()
    for folder in folders:
        yield load_run(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def _tell_odd(runs: Iterable[Run]) -> None:
    """Say what could not be read of runs, beside whatever else is printed."""
    from pytest_agenteval.store.run_reader import first_odd

    for run in runs:
        for odd in first_odd(run.odd):
            print(f"{run.folder}: {odd}", file=sys.stderr)


def _in_shape(runs: Sequence[Run], to: Path) -> int:
    from pytest_agenteval.benchmarks.ko_agentbench.report.report_files import write_reports

    for path in write_reports(runs, to):
        print(path)
    return 0


def _shown(runs: Sequence[Run], weights: Mapping[str, float], args: argparse.Namespace) -> int:
    from pytest_agenteval.reports.leaderboard.board_json import boards_json
    from pytest_agenteval.reports.leaderboard.standings import boards_of

    boards = boards_of(runs, weights)
    if args.json:
        data = boards_json(boards, weights)
        _put(args.json, json.dumps(data, ensure_ascii=False, indent=2) + "\n")
    if args.markdown:
        _put(args.markdown, _markdown(runs, boards))
    if STDOUT not in (args.json, args.markdown):
        _print(_lines(runs, boards, shutil.get_terminal_size().columns))
    return 0


def _lines(runs: Sequence[Run], boards: Sequence[Board], width: int) -> Iterator[Line]:
    """Give one run as after pytest, with its levels; several side by side."""
    from pytest_agenteval.reports.tables import table_lines
    from pytest_agenteval.reports.terminal import summary_lines
    from pytest_agenteval.reports.text_width import Line, clamp_width
    from pytest_agenteval.reports.view import view_of

    width = clamp_width(width)
    if len(runs) == 1:
        yield from summary_lines(view_of(runs[0]), width)
    for number, table in enumerate(_tables(runs, boards)):
        if number or len(runs) == 1:
            yield Line("")
        yield from table_lines(table, width)


def _markdown(runs: Sequence[Run], boards: Sequence[Board]) -> str:
    from pytest_agenteval.reports.github import summary_markdown
    from pytest_agenteval.reports.tables import table_markdown
    from pytest_agenteval.reports.view import view_of

    parts = [summary_markdown(view_of(runs[0]))] if len(runs) == 1 else []
    return "\n".join([*parts, *(f"{table_markdown(table)}\n" for table in _tables(runs, boards))])


def _tables(runs: Sequence[Run], boards: Sequence[Board]) -> Iterator[Table]:
    """Give the levels of each model of a single run; a board wherever there is more than one standing."""
    from pytest_agenteval.reports.leaderboard.board_tables import board_tables, standing_tables

    for board in boards:
        if len(runs) == 1:
            for standing in board.standings:
                yield from standing_tables(standing)
        if len(runs) > 1 or (board.has_levels and len(board.standings) > 1):
            yield from board_tables(board)


def _weights(said: str | None) -> Mapping[str, float]:
    """Read ``basic=0.4,robustness=0.2,efficiency=0.25,context=0.15``."""
    from pytest_agenteval.benchmarks.ko_agentbench.composite import WEIGHTS, checked_weights

    if said is None:
        return WEIGHTS
    found: dict[str, float] = {}
    for pair in said.split(","):
        name, _, number = pair.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise UsageMistake(f"--weights: expected part=number, as in basic=0.4; found {pair!r}") from None
    try:
        return checked_weights(found)
    except ValueError as refused:
        raise UsageMistake(f"--weights: {refused}") from None


def _put(file: str, text: str) -> None:
    text = KNOWN.text(text)  # a run may be older than what is known of secrets now
    if file == STDOUT:
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
    except OSError as refused:
        raise UsageMistake(f"{file}: cannot be written ({refused.strerror})") from None


def _print(lines: Iterable[Line]) -> None:
    """Print lines, in colour where a person looks at them."""
    looked_at = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in lines:
        look = LOOKS.get(line.style) if looked_at else None
        text = KNOWN.text(line.text)
        print(f"\x1b[{look}m{text}\x1b[0m" if look else text)

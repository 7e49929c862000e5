"""One stored run on the terminal: its screen as after pytest, and what did not pass above it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_agenteval.reports.leaderboard import Leaderboard, board_lines, standing_lines
from pytest_agenteval.reports.run_screen import (
    MOST_LINES,
    ScreenParts,
    miss_lines,
    screen_lines,
    worst_misses,
)
from pytest_agenteval.reports.run_view import view_of
from pytest_agenteval.store.run_reader import Run
from pytest_agenteval.text.formatting import StyledLine


def one_run_lines(
    run: Run,
    boards: Sequence[Leaderboard],
    steps: Sequence[str],
    width: int,
    verbosity: int,
    headline: Sequence[StyledLine] = (),
    footer: Sequence[StyledLine] = (),
) -> Iterator[StyledLine]:
    """Give a run in the detail of pytest with this verbosity; ``steps`` are commands that go on.

    ``headline`` is the verdict of a comparison, ``footer`` what came of gates.
    """
    steps = steps if verbosity == 0 else ()
    parts = ScreenParts(
        headline=headline,
        totals=list(_totals(boards, width, verbosity)),
        footer=footer,
        place=str(run.folder),
        next_steps=steps,
    )
    screen = screen_lines(view_of(run), width, verbosity, parts)
    yield from _misses(run, width, verbosity, MOST_LINES - 2 - len(screen))
    yield from screen


def _totals(boards: Sequence[Leaderboard], width: int, verbosity: int) -> Iterator[StyledLine]:
    """Give what benchmarks make of each model; with -v whole, and side by side where there are several."""
    if verbosity < 0:
        return
    standings = [standing for board in boards for standing in board.standings]
    yield from standing_lines(standings, width, whole=verbosity > 0)
    compared = [board for board in boards if board.has_scorecard and len(board.standings) > 1]
    if verbosity > 0 and compared:
        yield from (StyledLine(""), *board_lines(compared, width))


def _misses(run: Run, width: int, verbosity: int, room: int) -> Iterator[StyledLine]:
    if verbosity > 0:
        title, lines = "misses, the worst first", miss_lines(run, width)
    elif verbosity == 0 and (worst := worst_misses(run, width, room)):
        title, lines = worst.title, list(worst.lines)
    else:
        return
    if lines:
        yield from (StyledLine(title, "bold"), *lines, StyledLine(""))

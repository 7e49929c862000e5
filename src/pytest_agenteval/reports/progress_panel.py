"""What a run is at, as a few lines below whatever pytest prints: drawn while it runs, gone at its end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pytest_agenteval.records.record import FrozenValue
from pytest_agenteval.records.transcript import format_cost, format_tokens
from pytest_agenteval.reports.group_statistics import ResourceUse
from pytest_agenteval.text.formatting import cell_width, format_figure, shorten_middle

NARROWEST, FEWEST_ROWS = 60, 12
"""Columns and rows of the smallest terminal that has room for a panel beside what pytest prints."""

WIDEST = 120
"""Columns beyond which lines grow no longer: the eye would have to jump."""

LABEL, GAP = 11, 3
"""Columns of the words at the left, and between two figures."""

LONGEST_BAR, SHORTEST_BAR = 24, 8
TIME_ROOM = len("a few seconds left")
"""Columns that the first line keeps free for the time left, so that the bar never changes its length."""

SHORTEST_WAIT_S = 1.0
"""Seconds from which on a trial in flight is named as slow: names of quick ones would only flicker."""

NAME_ROOM = 30
"""Columns of the name of a suite: a line has room for two at least."""

Look = Literal["", "dim", "green", "yellow", "red"]


class Piece(NamedTuple):
    """A piece of a line, and how it looks where colours are wanted."""

    text: str
    look: Look = ""


PanelLine = Sequence[Piece]
SPACE: PanelLine = ()
"""The line between what pytest prints and the panel."""


class RunningTrial(NamedTuple):
    """A trial in flight, and the seconds since it began."""

    name: str
    seconds: float


class RunningScore(NamedTuple):
    """A suite, with its model where there are several, and the mean of its tasks' means; None before any."""

    name: str
    mean: float | None


class Progress(FrozenValue, frozen=True):
    """What a run is at.

    ``ended`` of ``planned`` trials have ended, by their endings ``passed``, ``missed``, ``failed`` and
    ``errored``; up to ``most`` are made where later repetitions are undecided. ``spent`` is what agents took,
    ``judging`` what judges took. ``seconds_left`` is None while nobody can tell. ``slowest`` is the trial
    that has been in flight longest. ``is_regraded`` says that no agent acts.
    """

    planned: int
    most: int
    ended: int
    in_flight: int
    passed: int
    missed: int
    failed: int
    errored: int
    scores: tuple[RunningScore, ...]
    spent: ResourceUse
    judging: ResourceUse
    seconds_left: float | None = None
    slowest: RunningTrial | None = None
    is_regraded: bool = False


def panel_lines(progress: Progress, columns: int, *, ascii_only: bool = False) -> list[PanelLine]:
    """Give the lines of the panel for a terminal of so many columns; none if it is too narrow."""
    if columns < NARROWEST:
        return []
    # Terminals differ in what they do behind the last column: it stays empty.
    width = min(columns, WIDEST) - 1
    more = f" to {progress.most:,}" if progress.most > progress.planned else ""
    planned = f"{progress.planned:,}"
    # Padded to the width of the plan, so that the numbers behind it do not jump as it grows.
    counts = [f"{progress.ended:>{len(planned)},} of {planned}{more}", f"{progress.in_flight:,} in flight"]
    figures = _spaced(map(Piece, counts))
    left = [] if progress.seconds_left is None else [time_left(progress.seconds_left)]
    # Room for the longest texts and not for those of now: the bar's length stays the same all the time.
    room = width - LABEL - GAP - len(counts[0]) - GAP - len("100 in flight") - GAP - TIME_ROOM
    bar = _bar(progress, min(LONGEST_BAR, room), ascii_only)
    lines = [
        _line("graded" if progress.is_regraded else "trials", [*bar, *figures], left, width),
        _endings(progress, width),
        _scores(progress, width),
    ]
    return [SPACE, *lines, _slowest(progress, width)]


def _bar(progress: Progress, room: int, ascii_only: bool) -> list[Piece]:
    if room < SHORTEST_BAR:
        return []
    # More than was planned may end, where repetitions are added while the run goes on.
    share = min(progress.ended / progress.planned, 1.0) if progress.planned else 0.0
    full, empty = ("#", "-") if ascii_only else ("━", "─")
    filled = int(share * room)
    return [Piece(full * filled, "green"), Piece(empty * (room - filled), "dim"), Piece(" " * GAP)]


def _endings(progress: Progress, width: int) -> PanelLine:
    counts: list[tuple[int, str, Look]] = [
        (progress.passed, "passed", "green"),
        (progress.missed, "missed", "yellow"),
        (progress.failed, "failed", "red"),
        (progress.errored, "errored", "red"),
    ]
    figures = [Piece(f"{n:,} {word}", look) for n, word, look in counts if n or word == "passed"]
    spent, judging, texts = progress.spent, progress.judging, []
    # What an agent took is not spent again where its trials are only graded again.
    if not progress.is_regraded:
        texts += [format_tokens(spent.tokens)] if spent.tokens else []
        texts += [format_cost(spent.cost)] if spent.tokens or spent.cost else []
    if judging.tokens or judging.cost:
        texts.append(f"judges {format_cost(judging.cost)}")
    return _line("ended", _spaced(figures), texts, width)


def _scores(progress: Progress, width: int) -> PanelLine:
    texts = [f"{shorten_middle(name, NAME_ROOM)} {format_figure(mean)}" for name, mean in progress.scores]
    # Whole figures only, and a count of the others: a line that wraps would break the panel.
    count = len(texts)
    while count > 1 and cell_width(_first(texts, count)) > width - LABEL:
        count -= 1
    return _line("score", [Piece(_first(texts, count))], [], width)


def _first(texts: Sequence[str], count: int) -> str:
    more = [f"and {len(texts) - count} more"] if count < len(texts) else []
    return (" " * GAP).join([*texts[:count], *more])


def _slowest(progress: Progress, width: int) -> PanelLine:
    # The names of trials that end soon would flicker.
    if progress.slowest is None or progress.slowest.seconds < SHORTEST_WAIT_S:
        return _line("slowest", [Piece("-", "dim")], [], width)
    seconds = whole_seconds(progress.slowest.seconds)
    name = shorten_middle(progress.slowest.name, width - LABEL - GAP - len(seconds))
    return _line("slowest", _spaced([Piece(name), Piece(seconds)]), [], width)


def _line(label: str, left: PanelLine, right: Sequence[str], width: int) -> PanelLine:
    """Put figures behind a label and texts at the end of the line, as many as there is room for.

    Of the figures the last give way first, of the texts the first.
    """
    while _columns(left) > width - LABEL:
        left = left[:-1]
    end = (" " * GAP).join(right)
    while right and LABEL + _columns(left) + GAP + cell_width(end) > width:
        right = right[1:]
        end = (" " * GAP).join(right)
    space = " " * (width - LABEL - _columns(left) - cell_width(end))
    return [Piece(f"  {label}".ljust(LABEL), "dim"), *left, *([Piece(space + end)] if end else [])]


def _spaced(pieces: Iterable[Piece]) -> list[Piece]:
    gap = Piece(" " * GAP)
    return [part for piece in pieces for part in (gap, piece)][1:]


def _columns(pieces: Sequence[Piece]) -> int:
    return sum(cell_width(piece.text) for piece in pieces)


def time_left(seconds: float) -> str:
    """Say about how long a run still takes: in tens of seconds, minutes, or five minutes from an hour on."""
    # A figure that changed with every look would say more than anybody knows.
    if seconds < 10:
        return "a few seconds left"
    if seconds < 55:
        return f"about {round(seconds / 10) * 10} s left"
    minutes = max(1, round(seconds / 60))
    if minutes < 60:
        return f"about {minutes} min left"
    hours, rest = divmod(round(minutes / 5) * 5, 60)
    return f"about {hours} h {rest:02d} min left" if rest else f"about {hours} h left"


def whole_seconds(seconds: float) -> str:
    """Write how long something has been going on: ``12 s``, ``1 min 05 s``, ``1 h 02 min``."""
    if seconds < 60:
        return f"{int(seconds)} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"

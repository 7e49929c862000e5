"""What a run or a side took, in words: one row of figures, and how two sides differ in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pytest_agenteval.compare.comparison import RunComparison
from pytest_agenteval.compare.resource_figures import ResourceFigures, TurnTimes
from pytest_agenteval.records.transcript import Figure, format_cost, format_seconds, format_tokens
from pytest_agenteval.reports.tables import markdown_rows
from pytest_agenteval.text.formatting import NOT_KNOWN, format_duration

ARROW = " -> "
LEAST_TURN_S = 0.02
"""Most replies from recordings take less, and those of models more: such times are not shown."""

MINUTE_S = 60
"""Below it, times of turns are in seconds with two digits: in a column, one unit says which is longer."""

MANY_TIMES = 10
"""From here on a change is written in times, and no more in percent."""


def figure_texts(figures: ResourceFigures) -> list[str]:
    """Write a row of figures: ``wall 52.0 s``, ``agents 2 min 39 s``, tokens, cost, times of turns.

    Tokens and cost are left out where nothing was taken, as by offline models, and times of turns where no
    model replied.
    """
    return [f"wall {_seconds(figures.wall)}", *spent_texts(figures)]


def spent_texts(figures: ResourceFigures) -> list[str]:
    """Write the row of figures without the wall time."""
    texts = [f"agents {_seconds(figures.seconds)}"]
    if figures.tokens or figures.cost:
        texts += [format_tokens(figures.tokens), format_cost(figures.cost)]
    return [*texts, *([f"turn p50/p95 {cell}"] if (cell := turn_cell(figures.turns)) else ())]


def turn_cell(turns: TurnTimes) -> str:
    """Write the median and the 95th percentile of turns: ``1.6/1.8 s``; empty where no model replied."""
    if turns.p50 is None or turns.p95 is None:
        return "unknown" if turns.unknown else ""
    if turns.p50 < LEAST_TURN_S:
        return ""
    if turns.p95 < MINUTE_S:
        return f"{_two_digits(turns.p50)}/{_two_digits(turns.p95)} s"
    return f"{turn_time(turns.p50)} / {turn_time(turns.p95)}"


def _two_digits(seconds: float) -> str:
    """Write seconds of a turn with two digits: ``0.057``, ``0.46``, ``1.8``, ``12``."""
    places = next((places for least, places in ((9.95, 0), (0.995, 1), (0.0995, 2)) if seconds >= least), 3)
    return f"{seconds:.{places}f}"


def _seconds(seconds: Figure) -> str:
    return "unknown" if seconds.known_part is None else format_seconds(seconds)


def change_texts(old: ResourceFigures, new: ResourceFigures) -> list[str]:
    """Write each figure of both sides with its change: ``wall 52.0 s -> 48.1 s (-7 %)``; equal ones once."""
    texts = []
    for title, before, after, by in _changes(old, new):
        change = f"{ARROW}{after}{f' ({by})' if by else ''}" if before != after else ""
        texts.append(f"{title} {before}{change}")
    return texts


def comparison_texts(comparison: RunComparison) -> list[str]:
    """Write what both sides took, with each change."""
    old, new = comparison.old_resources, comparison.new_resources
    return change_texts(old, new) if old and new else []


def change_markdown(comparison: RunComparison) -> str:
    """Give what both sides took as a table in Markdown: old, new and the change."""
    old, new = comparison.old_resources, comparison.new_resources
    if not (old and new):
        return ""
    changes = list(_changes(old, new))
    head = ["", *(title for title, *_ in changes)]
    rows = [[name, *(each[at] for each in changes)] for at, name in enumerate(("old", "new", "change"), 1)]
    return markdown_rows([head, *rows])


def _changes(old: ResourceFigures, new: ResourceFigures) -> Iterator[tuple[str, str, str, str]]:
    """Give for each figure its title, both sides' text, and the change, empty where one is unknown."""
    figures: Sequence[tuple[str, Callable[[ResourceFigures], Figure], Callable[[Figure], str]]] = (
        ("wall", lambda side: side.wall, _seconds),
        ("agents", lambda side: side.seconds, _seconds),
        ("tokens", lambda side: side.tokens, tokens_cell),
        ("cost", lambda side: side.cost, cost_cell),
    )
    # Sums over more trials are larger: whoever compares them has to know.
    if old.trials != new.trials:
        yield "trials", f"{old.trials:,}", f"{new.trials:,}", ""
    for title, figure, form in figures:
        before, after = figure(old), figure(new)
        # Nothing is to be compared where neither side knows how long it ran, or took anything.
        known = [side.known_part for side in (before, after)]
        if title == "agents" or (before or after if title != "wall" else known != [None, None]):
            yield title, form(before), form(after), _by(before.value, after.value)
    if max(old.turns.p50 or 0, new.turns.p50 or 0) >= LEAST_TURN_S:
        before_s, after_s = old.turns, new.turns
        yield "turn p50", turn_time(before_s.p50), turn_time(after_s.p50), _by(before_s.p50, after_s.p50)
        yield "turn p95", turn_time(before_s.p95), turn_time(after_s.p95), _by(before_s.p95, after_s.p95)


def turn_time(seconds: float | None) -> str:
    """Write how long a turn took: ``0.057 s``, ``1.8 s``."""
    if seconds is None:
        return "unknown"
    return f"{_two_digits(seconds)} s" if seconds < MINUTE_S else format_duration(seconds)


def _by(old: float | None, new: float | None) -> str:
    """Write by how much of the old figure the new one is larger or smaller; empty where that is not known."""
    if old is None or new is None or old <= 0:
        return ""
    if new >= MANY_TIMES * old:
        return f"{new / old:,.0f} times"
    percent = 100 * (new - old) / old
    return f"{percent:+.0f} %" if abs(percent) >= 1 else f"{percent:+.1f} %"


def tokens_cell(tokens: Figure) -> str:
    """Write tokens for a column of them: ``1,234``, ``1,234 + unknown``, ``unknown``."""
    text = format_tokens(tokens)
    return text.replace(" tokens", "").replace(" token", "") if tokens.known_part is not None else "unknown"


def cost_cell(cost: Figure) -> str:
    """Write a cost for a column of them: ``$1.23``, ``$1.23 + unknown``, ``unknown``."""
    return format_cost(cost).removeprefix("cost ")


def wall_cell(wall: Figure) -> str:
    """Write a wall time for a table."""
    return NOT_KNOWN if wall.known_part is None else format_seconds(wall)

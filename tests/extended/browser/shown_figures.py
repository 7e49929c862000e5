"""The figures that a page shows, read from its elements, and how a document's figures are written there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agenteval.reports.comparison_text import format_p
from pytest_agenteval.reports.resource_text import LEAST_TURN_S
from pytest_agenteval.text.formatting import format_figure, one_line, printable

Json: TypeAlias = dict[str, Any]

NONE = "–"
"""Where there is no figure."""

HERE = Path(__file__).parent
READ_LIST, READ_TRIAL = (
    (HERE / f"shown_{page}.js").read_text(encoding="utf-8") for page in ("list", "trial")
)
"""Scripts that give the figures of the list, and of the trial that is open, as they are shown."""


def figure(value: float | None) -> str:
    """Write a score as the page does."""
    return NONE if value is None else format_figure(value).replace("-", "−")


def signed(value: float) -> str:
    """Write a change with its sign."""
    if abs(value) < 1e-9:
        return "0.00"
    return f"{'+' if value > 0 else '−'}{figure(abs(value))}"


def interval(low: float | None, high: float | None) -> str:
    """Write an interval, whose ends round outwards."""
    if low is None or high is None:
        return ""
    bottom = "0.00" if 0 <= low < 0.005 else figure(low)
    return f"{bottom}{' to ' if low < 0 else '–'}{'1.00' if 0.995 <= high <= 1 else figure(high)}"


def duration(seconds: float | None) -> str:
    """Write a time: halves are rounded to the even number, as Python does everywhere."""
    if seconds is None:
        return "unknown"
    if seconds < 0.1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def money(usd: float | None) -> str:
    """Write a cost."""
    if usd is None:
        return "cost unknown"
    if 0 < usd < 0.00005:
        return "under $0.0001"
    return f"${usd:.2f}" if usd >= 1 or usd == 0 else f"${usd:.4f}"


def amount(known: float | None, unknown: int, write: Callable[[Any], str]) -> str:
    """Write a sum of which parts may be unknown."""
    if known is None or (unknown and not known):
        return "unknown"
    return f"{write(known)} + unknown" if unknown else write(known)


def count(number: float) -> str:
    """Write a whole number."""
    return f"{number:,.0f}"


def short(number: float) -> str:
    """Write a large number in short."""
    if number < 10_000:
        return count(number)
    return f"{math.floor(number / 1000 + 0.5)}k" if number < 1e6 else f"{number / 1e6:.1f}M"


def plural(number: int, thing: str) -> str:
    """Write how many there are of a thing."""
    return f"{number:,} {thing if number == 1 else f'{thing}s'}"


def percent(share: float | None) -> str:
    """Write a share as the page does: 100 % is all."""
    return NONE if share is None else f"{100 * float(format_figure(share)):.0f} %"


def probability(p: float) -> str:
    """Write a p."""
    return f"p {format_p(p)}"


def mean(scores: Sequence[float | None]) -> float | None:
    """Give the mean of the scores that are known."""
    known = [score for score in scores if score is not None]
    return math.fsum(known) / len(known) if known else None


def one_space(text: str) -> str:
    """Write a text without the spaces that HTML does not show."""
    return " ".join(plain(text).split())


def plain(text: str) -> str:
    """Write out what turns the writing direction, and controls."""
    return printable(text)


def cut(text: str, most: int) -> str:
    """Put a text on one line of at most so many characters."""
    return one_line(text, most)


def turn_time(seconds: float) -> str:
    """Write how long a turn took: in seconds, with two digits."""
    if seconds >= 60:
        return duration(seconds)
    digits = sum(seconds < least for least in (9.95, 0.995, 0.0995))
    return f"{seconds:.{digits}f} s"


def turns(figures: Json) -> str:
    """Write the median and the 95th percentile of turns; replies from recordings have none."""
    p50, p95 = figures["p50"], figures["p95"]
    if p50 is None or p95 is None:
        return "unknown" if figures["turns_unknown"] else NONE
    if p50 < LEAST_TURN_S:
        return NONE
    half = turn_time(p50).removesuffix(" s") if p95 < 60 else turn_time(p50)
    return f"{half} / {turn_time(p95)}"


def by(old: float, new: float) -> str:
    """Write by how much a figure is larger or smaller, as the terminal does."""
    if old <= 0:
        return ""
    if new >= 10 * old:
        return f"{new / old:,.0f} times"
    percents = 100 * (new - old) / old
    text = f"{percents:+.0f} %" if abs(percents) >= 1 else f"{percents:+.1f} %"
    return text.replace("-", "−")

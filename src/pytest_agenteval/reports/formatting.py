"""How figures, names and foreign text are put into words, the same in every report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_agenteval.records.plan import OWN_MODEL

if TYPE_CHECKING:
    from pytest_agenteval.compare.scoring.intervals import Interval
    from pytest_agenteval.records.figure import Figure
    from pytest_agenteval.records.plan import TrialKey

NOT_KNOWN = "-"
MOST_NAME = 200
MOST_MOMENT = 40
MOST_TEXT = 300
"""Characters of a foreign text in Markdown."""

_MARKUP = re.compile(r"([\\`*_{}\[\]|~#$!])")

# What GitHub links in the text that is shown: accounts, mail addresses, issues, bare addresses.
_LINKED = re.compile(
    r"(?<!\w)@(?=\w)|(?<=\w)@(?=[\w-]+\.\w)|#(?=\w)|\bGH-(?=\d)|:(?=//)|\bwww\.(?=\S)", re.IGNORECASE
)
NO_LINK = "\u200b"
"""A space without width, which keeps GitHub from linking what it stands in."""

# Controls, escapes and what turns the writing direction: an agent's answer must not paint the terminal.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_SPACE = re.compile(r"\s+")


def printable(text: str) -> str:
    """Write out control characters, keeping newlines and tabs: what is left can neither act nor break XML.

    >>> printable("\\x1b[31m \\u202e")
    '\\\\x1b[31m \\\\u202e'
    """
    return _UNSAFE.sub(_written_out, text)


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, most: int) -> str:
    """Put a text on one line of at most ``most`` characters; a cut is shown."""
    line = printable(_SPACE.sub(" ", text[: 4 * most]).strip())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"


def escape_markdown(text: str, most: int = MOST_TEXT, *, links: bool = False) -> str:
    """Put foreign text on one line, cut after ``most``, in which Markdown and HTML find nothing to act on.

    Nobody is mentioned in it, and nothing is linked, wherever it is pasted on GitHub; with ``links``, for
    texts of an author's own, addresses are.
    """
    line = _LINKED.sub(rf"\g<0>{NO_LINK}", one_line(text, most))
    line = line.replace(f":{NO_LINK}//", "://") if links else line
    return _MARKUP.sub(r"\\\1", line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def format_figure(value: float | None) -> str:
    """Write a figure with two digits; 1.00 and 0.00 are never rounded to."""
    if value is None:
        return NOT_KNOWN
    if value < -1e-9:
        return f"-{format_figure(-value)}" if value > -0.005 else f"{value:.2f}"
    if 0.995 <= value < 1 - 1e-9:
        return "0.99"
    return "0.01" if 1e-9 < value < 0.005 else f"{value:.2f}"


def format_interval(interval: Interval | None) -> str:
    """Write an interval: ``0.52-0.90``, or ``-0.75..0.53`` where a dash would be taken for a minus.

    Ends round outwards to 0.00 and 1.00, for the figure of all tasks passed is 1.00 and lies in 0.95-1.00.
    """
    return NOT_KNOWN if interval is None else format_ends(interval.low, interval.high)


def format_ends(low: float, high: float) -> str:
    """Write the ends of an interval, as ``format_interval`` does."""
    between = ".." if low < 0 else "-"
    lower = "0.00" if 0 <= low < 0.005 else format_figure(low)
    upper = "1.00" if 0.995 <= high <= 1 else format_figure(high)
    return f"{lower}{between}{upper}"


PARTLY_UNKNOWN = " + unknown"
"""Stands behind a sum of which a part is unknown."""


def format_tokens(tokens: Figure) -> str:
    """Write how many tokens were taken: ``1,234 tokens``, ``1,234 tokens + unknown``, ``tokens unknown``."""
    if tokens.known_part is None:
        return "tokens unknown"
    return pluralize(int(tokens.known), "token") + (PARTLY_UNKNOWN if tokens.unknown else "")


def format_cost(usd: Figure) -> str:
    """Write what was paid: ``$1.23``, ``$1.23 + unknown``, ``cost unknown``."""
    if usd.known_part is None:
        return "cost unknown"
    paid = f"${usd.known:.2f}" if usd.known >= 1 or usd.known == 0 else f"${usd.known:.4f}"
    return paid + (PARTLY_UNKNOWN if usd.unknown else "")


def format_duration(seconds: float) -> str:
    """Write a duration."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def format_seconds(seconds: Figure) -> str:
    """Write how long agents took: ``1.2 s``, ``1.2 s + unknown``, ``time unknown``."""
    if seconds.known_part is None:
        return "time unknown"
    return format_duration(seconds.known) + (PARTLY_UNKNOWN if seconds.unknown else "")


def format_moment(text: str) -> str:
    """Write a moment of ISO 8601 as clocks here show it, to the minute; what is none stands as it is."""
    try:
        return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return one_line(text, MOST_MOMENT)


def ending_word(ending: str, score: float | None) -> str:
    """Say how a trial ended as pytest does: ``MISSED 0.40``, ``ERROR``."""
    return "ERROR" if ending == "errored" else f"{ending.upper()} {format_figure(score)}"


def pluralize(number: int, thing: str) -> str:
    """Write a number of things: ``1 trial``, ``2 trials``."""
    return f"{number:,} {thing if number == 1 else plural(thing)}"


def plural(thing: str) -> str:
    """Write the name of several things: ``trials``, ``replies``, ``misses``."""
    return f"{thing[:-1]}ies" if thing[-1] == "y" else f"{thing}{'es' if thing[-1] == 's' else 's'}"


def tally(counts: Mapping[str, int]) -> str:
    """Write counts by name, most first: ``3 provider, 1 fixture``."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{number} {one_line(name, MOST_NAME) or 'unnamed'}" for name, number in ordered)


def own_label(model: str, own_models: Sequence[str]) -> str:
    """Write a model, in its place those that the agent asked by itself, if there are any: ``own: gpt-6``."""
    return f"{OWN_MODEL}: {', '.join(own_models)}" if own_models else model


def model_label(model: str, variant: str) -> str:
    """Write a model with its variant: ``claude@short``."""
    return f"{model}@{variant}" if variant else model


def trial_name(key: TrialKey) -> str:
    """Write which trial is meant: ``travel/cheapest_flight[claude@short-1]``."""
    return one_line(key.label, MOST_NAME)

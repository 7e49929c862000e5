"""Dates and times of day in texts, in the spellings that people and programs use.

A spelling that can be read in two ways gives both: 3/4 is the third of April and the fourth of March.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_agenteval.records.record import FrozenValue

_MONTHS = (
    "january jan januar jänner janvier enero gennaio janeiro januari",
    "february feb februar février fevrier febrero febbraio fevereiro februari",
    "march mar märz maerz mars marzo março maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août aout agosto augustus",
    "september sept sep septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre diciembre dicembre dezembro",
)
_MONTH = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_WHOLE = {name for name in _MONTH if len(name) > 4} | {names.split()[0] for names in _MONTHS}
"""Names of months that are nothing else: mars is a planet, too."""
_NAME = rf"(?P<month>{'|'.join(sorted(_MONTH, key=len, reverse=True))})(?![^\W\d_])\.?"
_DAY = r"(?P<day>\d{1,2})(?!\d)(?:st|nd|rd|th|er|º|\.)?"
_TO = (
    r"(?:\s*(?:-|/|,|&|to|till|until|through|and|bis|und|et|au|y|al|e|a)\s*"
    r"(?P<last>\d{1,2})(?!\d)(?:st|nd|rd|th|\.)?)?"
)
_YEAR = r"(?:,?\s*(?:of\s|de\s)?\s*(?P<year>\d{4})(?!\d))?"

_NUMERIC = (
    re.compile(r"(?<!\d)(?P<year>\d{4})(?P<by>[-/]|\. ?)(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})(?!\d)"),
    re.compile(r"(?<![\d.])(?P<one>\d{1,2})(?P<by>[-/]|\. ?)(?P<other>\d{1,2})(?P=by)(?P<year>\d{4})(?!\d)"),
)
_NAMED = (
    re.compile(rf"(?<!\d){_DAY}{_TO}\s*(?:of\s|de\s|di\s)?\s*{_NAME}{_YEAR}"),
    re.compile(rf"(?<![^\W\d_]){_NAME}\s*{_DAY}{_TO}{_YEAR}"),
    re.compile(
        r"(?:(?P<year>\d{4})\s*[年년]\s*)?(?P<month>(?<!\d)\d{1,2})\s*[月월]\s*(?P<day>\d{1,2})\s*[日号號일]"
        r"(?:\s*[-~至到]\s*(?P<last>\d{1,2})\s*[日号號일])?"
    ),
)
_MONTH_ALONE = re.compile(
    rf"(?<![^\W\d_]){_NAME}|(?<!\d)(?P<number>\d{{1,2}})\s*[月월]|(?<!\d)\d{{4}}-(?P<of_year>\d\d)(?![\d-])"
)
_SHORT = re.compile(r"(?<![\d./:-])(?P<one>\d{1,2})(?P<by>[-/.])(?P<other>\d{1,2})(?![\d/:-]|\.\d)")

_LATE = ("p", "오후", "下午", "午後")
_EARLY = ("a", "오전", "上午", "早上", "午前", "凌晨", "아침", "새벽", "朝", "清晨", "早晨")
_AT_NIGHT = ("저녁", "밤", "晚上", "夜", "夕方", "傍晚", "晩")
_AT_NOON = ("낮", "中午", "昼")
_HALVES = [half for half in (*_LATE, *_EARLY, *_AT_NIGHT, *_AT_NOON) if half not in ("a", "p")]
_ALONE = r"(?<![\d:])(?<!\d[.,])"
_CLOCKS = (
    re.compile(
        _ALONE + r"(?P<hour>\d{1,2})[:h](?P<minute>[0-5]\d)(?::[0-5]\d)?(?:\.0+)?(?![\d:]|\.\d)"
        r"(?:\s*(?P<half>[ap])\.?m\b)?"
    ),
    re.compile(
        rf"(?P<half>{'|'.join(_HALVES)}|\b[ap](?=\.?m))(?:\.?m\.?)?\s*"
        r"(?P<hour>\d{1,2}):(?P<minute>[0-5]\d)(?![\d:]|\.\d)"
    ),
    re.compile(_ALONE + r"(?P<hour>\d{1,2})(?:[.](?P<minute>[0-5]\d))?\s*(?P<half>[ap])\.?m\b"),
    re.compile(_ALONE + r"(?P<hour>\d{1,2})(?:[.:](?P<minute>[0-5]\d))?\s*uhr\b"),
    re.compile(
        rf"(?P<half>{'|'.join(_HALVES)})?\s*{_ALONE}(?P<hour>\d{{1,2}})\s*[시点點時]"
        r"(?!间|間|간)(?:\s*(?P<minute>\d{1,2})\s*[분分]|\s*(?P<middle>[반半]))?"
    ),
)
_DOTTED = re.compile(_ALONE + r"(?P<hour>\d{1,2})\.(?P<minute>[0-5]\d)(?![\d:]|\.\d)")
_NAMED_TIME = re.compile(r"\b(?P<noon>noon|정오|正午)|\b(?:midnight|자정|午夜)")


class Day(FrozenValue, frozen=True):
    """A day of a year, or of any year."""

    month: int
    day: int
    year: int | None = None

    def can_equal(self, other: Day) -> bool:
        """Whether both can be the same day: where one has no year, the year does not matter."""
        years = None in (self.year, other.year) or self.year == other.year
        return years and (self.month, self.day) == (other.month, other.day)


def parse_days(text: str) -> frozenset[Day]:
    """Give the readings of a text that is a date, with a year or a month's name, and nothing else."""
    for pattern in (*_NUMERIC, *_NAMED):
        match = pattern.fullmatch(text)
        if match is not None:
            return frozenset(_days(match))
    return frozenset()


def parse_month(text: str) -> int:
    """Give the month that a folded text names and nothing else; 0 where it names none."""
    return _MONTH[text] if text in _WHOLE else 0


def find_months(text: str) -> frozenset[int]:
    """Give every month that a folded text names, shortened or not, alone or in a date."""
    named = (_MONTH[match["month"]] for match in _MONTH_ALONE.finditer(text) if match["month"])
    counted = (int(match["number"] or match["of_year"] or 0) for match in _MONTH_ALONE.finditer(text))
    return frozenset((*named, *counted, *(day.month for day in find_days(text, short=False)))) - {0}


def find_days(text: str, *, short: bool = True) -> frozenset[Day]:
    """Give every reading of every date in a folded text; ``short`` takes in those like 09-17."""
    return frozenset(
        day
        for pattern in (*_NUMERIC, *_NAMED, *((_SHORT,) if short else ()))
        for match in pattern.finditer(text)
        for day in _days(match)
    )


def parse_times(text: str) -> frozenset[int]:
    """Give the minutes of the day that a text can mean which is a time and nothing else.

    Of an hour without a leading zero, without morning or evening, both are meant: 7:05 is also 19:05.
    """
    for pattern in _CLOCKS:
        match = pattern.fullmatch(text)
        minute = None if match is None else _minute(match)
        if match is not None and minute is not None:
            hour = match["hour"]
            open_half = not match.groupdict().get("half") and not hour.startswith("0") and 0 < int(hour) <= 12
            return frozenset({minute, (minute + 720) % 1440} if open_half else {minute})
    return frozenset()


def find_times(text: str, *, dotted: bool = False) -> frozenset[int]:
    """Give the minute of the day of every time in a folded text; ``dotted`` takes in those like 15.40."""
    patterns = (*_CLOCKS, _DOTTED) if dotted else _CLOCKS
    minutes = (_minute(match) for pattern in patterns for match in pattern.finditer(_without_days(text)))
    named = (720 if match["noon"] else 0 for match in _NAMED_TIME.finditer(text))
    return frozenset(minute for minute in (*minutes, *named) if minute is not None)


def without_days_and_times(text: str, *, named: bool = False) -> str:
    """Take out what is a numeric date, but for its year, and what is a time.

    ``named`` takes out all of a date, its year too, and dates with a month's name.
    """
    if named:
        for pattern in (*_NUMERIC, *_NAMED):
            text = re.sub(pattern.pattern + "(?:t(?=[0-9]))?", " · ", text)
    text = _without_days(text)
    for pattern in _CLOCKS:
        text = pattern.sub(" · ", text)
    return text


def _without_days(text: str) -> str:
    for pattern in _NUMERIC:
        # The letter between a date and a time of ISO 8601 goes with the date.
        text = re.sub(pattern.pattern + "(?:t(?=[0-9]))?", r" \g<year> · ", text)
    return text


def _days(match: re.Match[str]) -> Iterator[Day]:
    parts = match.groupdict()
    year = int(parts["year"]) if parts.get("year") else None
    if "one" in parts:
        first, other = int(parts["one"]), int(parts["other"])
        yield from _valid(year, other, first)
        # With points the day comes first everywhere; with slashes and hyphens it depends on who writes.
        if not parts["by"].startswith("."):
            yield from _valid(year, first, other)
        return
    name = parts["month"]
    month = int(name) if name.isdigit() else _MONTH[name]
    yield from _valid(year, month, int(parts["day"]))
    if parts.get("last"):
        yield from _valid(year, month, int(parts["last"]))


def _valid(year: int | None, month: int, day: int) -> Iterator[Day]:
    if 1 <= month <= 12 and 1 <= day <= 31:
        yield Day(month, day, year)


def _minute(match: re.Match[str]) -> int | None:
    parts = match.groupdict()
    hour, half = int(parts["hour"]), parts.get("half")
    minute = 30 if parts.get("middle") else int(parts.get("minute") or 0)
    if hour > 24 or minute > 59:
        return None
    return (_hour(hour, half) * 60 + minute) % 1440


def _hour(hour: int, half: str | None) -> int:
    """Give an hour of 24: at night it is evening from five on, and then morning."""
    if half in _EARLY or (half in _AT_NIGHT and hour == 12):
        return 0 if hour == 12 else hour
    late = half in _LATE or (half in _AT_NIGHT and hour >= 5) or (half in _AT_NOON and hour <= 5)
    return hour + 12 if late and hour < 12 else hour

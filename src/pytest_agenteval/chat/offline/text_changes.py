"""Changes within a text: of numbers, of days, of facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import TypeGuard

MOST_SHOWN = 60
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_SHORT_MONTHS = "|".join(month[:3] for month in _MONTHS.split("|"))

DAY_IN_FULL = re.compile(r"(?<![\w./-])(\d{4})([-/.])(\d\d)\2(\d\d)(?![./-]?\d|[\w./]*#|\.\w)")
DAY_OF_MONTH = re.compile(rf"\b(\d{{1,2}})(?=(?:st|nd|rd|th)? (?:{_MONTHS}|{_SHORT_MONTHS})\b)")
MONTH_DAY = re.compile(rf"(?<=\b)((?:{_MONTHS}|{_SHORT_MONTHS})\.? )(\d{{1,2}})(?!\d)")
DAY_IN_KOREAN = re.compile(r"(\d{1,2}월\s?|\d{1,2}月)(\d{1,2})(?=일|日|号)")
SHORT_DAY = re.compile(r"(?<![\w.,/:-])(\d\d)-(\d\d)(?![\w/-]|[.,]\d)")

TIME = re.compile(r"(?<![\w:.,-])(\d{1,2}):(\d\d)(?![\d:])")
NUMBER = re.compile(r"(?<![A-Za-z0-9_.,#:/$-])-?\d+(?:[.,]\d+)*(?![0-9_:/]|-\d|[.,]\d|st\b|nd\b|rd\b|th\b)")
_COMMENT = re.compile(r"<!--.*-->")
_ID = re.compile(r"[\w/.-]*\d[\w/.-]*#[\w-]+|https?://\S+")
_SENTENCE = re.compile(r"[^\n]*?(?:[.!?。！？…]+[\"'”’)」』]*(?=\s|$|(?<=[。！？]))|(?=\n)|$)\s*")
# A comma or colon between digits separates nothing: 19,120 and 07:40 are one number or time.
_CLAUSE = re.compile(r"(?:[^,;，、:]|(?<=\d)[,:](?=\d))+(?:[,;，、:]\s*|$)")
# Japanese and Chinese have no blanks between words, so each of their characters counts as a word.
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]|\w+")


def is_prose(value: object) -> TypeGuard[str]:
    """Whether a value is a text of two words or more, and no path or id."""
    if not isinstance(value, str) or len(_WORD.findall(value)) < 2:
        return False
    return re.search(r"\s|[\u3040-\u9fff]", value.strip()) is not None


def days_in(text: str) -> list[str]:
    """Give the days that a text names, as they are written, each once."""
    return list(dict.fromkeys(match[0] for pattern, _ in _DAYS for match in pattern.finditer(text)))


def numbers_in(text: str) -> list[str]:
    """Give the numbers and times of a text, as written, each once, without those of days and ids."""
    bare = _ID.sub(" ", text)
    for pattern, _ in _DAYS:
        bare = pattern.sub(" ", bare)
    times = [match[0] for match in TIME.finditer(bare)]
    return list(dict.fromkeys([*times, *NUMBER.findall(TIME.sub(" ", bare))]))


def plus_one(number: str) -> str:
    """Give the number or time that is greater by one, with its spelling and sign."""
    time = TIME.fullmatch(number)
    if time:
        return f"{time[1]}:{(int(time[2]) + 1) % 60:02}"
    whole, point, rest = number.partition(".") if number.count(".") == 1 else (number, "", "")
    digits = re.sub(r"\D", "", whole)
    more = str(int(digits) + 1).zfill(len(digits))
    if "," in whole:
        more = f"{int(more):,}"
    return f"{'-' if whole.startswith('-') else ''}{more}{point}{rest}"


def with_number(text: str, number: str, other: str) -> str:
    """Replace a number wherever it is not part of a day or an id."""
    pattern = TIME if ":" in number else NUMBER
    days = [match.span() for day, _ in _DAYS for match in day.finditer(text)]
    ids = [match.span() for match in _ID.finditer(text)]

    def swapped(match: re.Match[str]) -> str:
        inside = any(start <= match.start() < end for start, end in (*days, *ids))
        return other if match[0] == number and not inside else match[0]

    return pattern.sub(swapped, text)


def a_day_later(text: str) -> str:
    for pattern, later in _DAYS:
        text = pattern.sub(later, text)
    return text


def _full_date_later(match: re.Match[str]) -> str:
    year, mark, month, day = match.groups()
    try:
        return (date(int(year), int(month), int(day)) + timedelta(1)).strftime(f"%Y{mark}%m{mark}%d")
    except ValueError:
        return match[0]


def _short_date_later(match: re.Match[str]) -> str:
    try:
        # A leap year, so that 02-29 is a day.
        return (date(2024, int(match[1]), int(match[2])) + timedelta(1)).strftime("%m-%d")
    except ValueError:
        return match[0]


def _day_number_later(number: str) -> str:
    # Every month has 28 days. From there on the day before is taken, which always exists.
    return str(int(number) + 1 if int(number) < 28 else int(number) - 1).zfill(len(number))


_DAYS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (DAY_IN_FULL, _full_date_later),
    (DAY_OF_MONTH, lambda match: _day_number_later(match[1])),
    (MONTH_DAY, lambda match: match[1] + _day_number_later(match[2])),
    (DAY_IN_KOREAN, lambda match: match[1] + _day_number_later(match[2])),
    (SHORT_DAY, _short_date_later),
)


def facts_in(text: str) -> list[str]:
    """Give the parts that a text can lose: its sentences and lines, or the clauses of a single one."""
    sentences = [part for part in _SENTENCE.findall(text) if _WORD.search(part)]
    if len(sentences) > 1:
        return sentences
    clauses = [part for part in _CLAUSE.findall(text) if _WORD.search(part)]
    return clauses if len(clauses) > 1 else []


def words_of(text: str) -> frozenset[str]:
    """Give the words of a text with four letters or more, and every number."""
    found = (word.casefold() for word in _WORD.findall(text))
    return frozenset(word for word in found if len(word) >= 4 or word.isdecimal() or ord(word[0]) > 0x2E7F)


# Parts of a text, each by its first place and the place after its last.
TextSpans = tuple[tuple[int, int], ...]


def with_spans(text: str, spans: TextSpans, others: Iterable[str]) -> str:
    pieces, place = list[str](), 0
    for (start, end), other in zip(spans, others, strict=True):
        pieces += [text[place:start], other]
        place = end
    return "".join([*pieces, text[place:]])


def shortened(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"


def new_spans(text: str, known: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Give the spans of a text that no known text holds: lines, or what surrounds a known text."""
    for old in sorted((old for old in known if len(old) > 3 and old in text), key=len, reverse=True)[:1]:
        start = text.index(old)
        yield from new_spans(text[:start], known)
        offset = start + len(old)
        yield from ((offset + a, offset + b) for a, b in new_spans(text[offset:], known))
        return
    place = 0
    for line in text.splitlines(keepends=True):
        stripped = line.strip()
        if stripped and not _COMMENT.fullmatch(stripped) and not any(stripped in old for old in known):
            yield place, place + len(line)
        place += len(line)

"""Whether a text says something: whole words of any script, whole numbers, dates, times, addresses."""

from __future__ import annotations

import time
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.text_search import mentions, normalize_mention, number_readings
from pytest_agenteval.text.json_values import fold_text
from tests.yaml_files import read_yaml

CASES = read_yaml(Path(__file__).with_name("mentions.yaml"))


@pytest.mark.parametrize(("needle", "text"), CASES["said"])
def test_other_spellings_say_the_same(needle: str, text: str) -> None:
    """A number, date, time, address or word counts in whatever way people and programs write it."""
    assert mentions(text, needle)


@pytest.mark.parametrize(("needle", "text"), CASES["not_said"])
def test_a_part_of_something_else_says_nothing(needle: str, text: str) -> None:
    """What is looked for is looked for whole: no longer number, other day, other host, longer word has it."""
    assert not mentions(text, needle)


days = st.dates(date(2000, 1, 1), date(2099, 12, 28))
spellings = st.sampled_from(
    [
        "{:%Y-%m-%d}",
        "{:%Y-%m-%dT09:30:00}",
        "{0.day} {0:%B} {0.year}",
        "{0:%b} {0.day}, {0.year}",
        "{0.year}年{0.month}月{0.day}日",
        "{0.year}년 {0.month}월 {0.day}일",
        "{0:%d.%m.%Y}",
    ]
)


@given(days, spellings, spellings, st.integers(1, 27))
def test_a_day_is_found_in_every_spelling_and_no_other_day_is(
    day: date, spelling: str, other: str, off: int
) -> None:
    """Each spelling finds each other one of the same day, and none of a day nearby."""
    needle = spelling.format(day).removesuffix("T09:30:00")

    assert mentions(f"it is {other.format(day)}, I think", needle)
    assert not mentions(f"it is {other.format(day + timedelta(off))}, I think", needle)


@given(st.integers(0, 23), st.integers(0, 59), st.integers(1, 719))
def test_a_time_is_found_in_every_spelling_and_no_other_time_is(hour: int, minute: int, off: int) -> None:
    """Twenty-four hours and twice twelve say the same minute."""
    needle, half = f"{hour:02}:{minute:02}", "pm" if hour >= 12 else "am"
    later = (hour * 60 + minute + off) % 1440

    assert mentions(f"at {(hour + 11) % 12 + 1}:{minute:02} {half}.", needle)
    assert mentions(f"2026-09-18T{needle}:00", needle)
    assert not mentions(f"2026-09-18T{later // 60:02}:{later % 60:02}:00", needle)


@given(st.integers(0, 10**7), st.sampled_from(["{}", "{:,}", "${:,}", "{} kg", "{}kg", "({})", "{:,}.00"]))
def test_a_number_is_found_by_its_value(number: int, spelling: str) -> None:
    """Thousands, money and units around a number change nothing; one digit more or less is another number."""
    text = f"x {spelling.format(number)} y"

    assert mentions(text, str(number))
    assert not mentions(text, str(number + 100))
    assert not mentions(f"x {spelling.format(number * 10 + 1000)} y", str(number * 10 + 900))


@given(st.decimals(0, 10**6, places=2))
def test_a_number_reads_as_it_was_written(number: Decimal) -> None:
    """Point and comma are read both ways where both are possible."""
    assert number in number_readings(str(number))
    assert number in number_readings(str(number).replace(".", ","))
    assert number in number_readings(f"{number:,}")


@given(st.text(), st.text())
def test_any_two_texts_can_be_compared(text: str, needle: str) -> None:
    """No text breaks it, and a text of words says itself."""
    mentions(text, needle)


words = st.lists(st.text("abcxyz가나다睡眠éд", min_size=1, max_size=6), min_size=1, max_size=4).map(" ".join)


@given(words, words, words)
def test_what_stands_between_other_words_is_found(before: str, needle: str, after: str) -> None:
    """Words that stand in a text by themselves are said by it."""
    assert mentions(f"{before}, {needle}. {after}", needle)


@pytest.mark.parametrize(
    "piece", ["1", "1.", "a-", "½ ", "1,", "，", "two-", "minus ", "2026. ", "오전 ", "\u200d", "十"]
)
def test_a_long_odd_text_is_read_once(piece: str) -> None:
    """What reading takes grows with a text's length, not with its square: a minute would be hours."""
    start = time.perf_counter()
    for needle in ("January 7", "word", "18:45", "2026-09-18", "example.com/a", "가나"):
        mentions(piece * 10_000, needle)
    assert time.perf_counter() - start < 20


def test_only_a_mention_takes_every_dash_for_one() -> None:
    """What Memex looks for in prose is folded further than what matchers compare."""
    assert fold_text("10–12") != fold_text("10-12")
    assert normalize_mention("10–12") == normalize_mention("10-12")

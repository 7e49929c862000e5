"""Whether a text says something: whole words of any script, whole numbers, dates, times, addresses."""

from __future__ import annotations

import time
from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.text_search import mentions, normalize_mention, number_readings
from pytest_agenteval.text.json_values import fold_text

SAID = [
    # numbers
    ("6.5", "slept 6.5 hours"),
    ("6.5", "6,5 Stunden"),
    ("349", "$349"),
    ("$349", "349.00 USD"),
    ("349", "EUR349"),
    ("13499", "13,499 won"),
    ("1,900", "-1900"),
    ("1 900", "1,900"),
    ("72.3", "72.3kg"),
    ("11.8", "11.80 kWh"),
    ("7", "7/10"),
    ("14", "rib 14 of 20"),
    ("46", "今天游了46趟"),
    ("2026", "2026-10-02T00:00:00"),
    ("8:21.4", "erg 2 km in 8:21.4, record"),
    ("7", "\uff17"),
    ("7", "\u0667"),
    ("1,900", "1\u202f900"),
    ("1,900", "1\u2019900"),
    ("3.5", "3\u00bd stars"),
    ("0.5", "\u00bd"),
    ("-4", "\u22124 \u00b0C"),
    ("-4", "minus four"),
    ("-4", "영하 4도"),
    ("+4 g", "4 g"),
    ("+4 g", "worst: +4g"),
    ("2.1", "-2.1 kWh"),
    ("12", "twelve boxes"),
    ("three sets of eight", "3 sets of eight"),
    ("26", "we are twenty-six"),
    ("4 h 20", "4h20"),
    # times
    ("7", "2026-05-26T19:00:00"),
    ("7", "dinner at 7 pm"),
    ("7", "7pm"),
    ("7", "저녁 7시"),
    ("19:00", "7 p.m."),
    ("18:45", "2026-09-18T18:45:00"),
    ("18:45", "6:45 pm"),
    ("18:45", "오후 6시 45분"),
    ("18:45", "下午6点45分"),
    ("18:45", "18h45"),
    ("18:45", "18.45 Uhr"),
    ("18:45", "오후 6:45"),
    ("18:45", "下午6:45"),
    ("18:45", "PM 6:45"),
    ("3.5", "\u0663\u066b\u0665"),
    ("15:40", "off the 15.40 train"),
    ("07:20", "7:20"),
    ("10:30", "10:30am"),
    ("4:00", "两点半到家，4点醒"),
    ("4:00", "up late,4:00 at last"),
    ("21:00", "밤 9시"),
    ("0:00", "밤 12시"),
    ("1:00", "밤 1시"),
    ("15:00", "낮 3시"),
    ("18:30", "저녁 6시 반"),
    ("19:00", "夕方7時"),
    ("7:00", "朝7時"),
    ("12:00", "at noon"),
    ("0:00", "자정에"),
    # dates
    ("2026-10-02", "2 October 2026"),
    ("2026-10-02", "October 2nd"),
    ("2026-10-02", "2026-10-02T00:00:00"),
    ("2026-10-02", "02.10.2026"),
    ("2026-10-02", "10/2/2026"),
    ("2026-10-02", "2 to 4 October"),
    ("2026-10-04", "2\u20134 October"),
    ("2026-10-04", "Oct 2-4, 2026"),
    ("2026-10-02", "2026年10月2日"),
    ("2026-10-02", "10월 2일"),
    ("2026-10-02", "2. Oktober"),
    ("2026-10-02", "2 de octubre de 2026"),
    ("12 June", "2027-06-12"),
    ("12 June", "due 06-12"),
    ("7 December", "Dec 7"),
    ("2026-09-17", "2026. 9. 17."),
    ("2026-09-17", "17. 9. 2026"),
    ("January", "from Jan 2027"),
    ("January", "2027-01-05"),
    ("December", "12月に"),
    # addresses
    ("example.com/a/b", "https://example.com/a/b"),
    ("example.com/a/b", "see http://www.Example.com/a/b/?utm=1#top, it helps"),
    ("example.com/a/b", "[text](https://example.com/a/b)"),
    ("example.com/a/b", "看https://example.com/a/b，很好"),
    ("example.com/a/b", "https://example.com/a/b를 봐"),
    ("example.com/a/b", "https://example.com/a/b/c"),
    ("theverge.com", "from theverge.com today"),
    # words
    ("joy city", "Dinner at JOY  CITY mall"),
    ("chord", "Ukulele chords"),
    ("chords", "one chord"),
    ("high-vis", "a high vis vest"),
    ("rulebook", "the rule-book"),
    ("half-time", "goes halftime"),
    ("istanbul", "\u0130stanbul"),
    ("十年", "往后十年的船钱"),
    ("二十二", "梁先生的二十二本账"),
    ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af을"),
    ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd"),
    ("lindqvist", "Lindqvist\u2019s"),
    ("caf\u00e9 a", "Cafe\u0301 \uff21"),
    ("stra\u00dfe", "STRASSE"),
    ("c++", "learning C++ now"),
    ("\U0001f971", "tired \U0001f971!"),
    ("커피", "커피를 마셨다"),
    ("서울 역", "서울역에서 만남"),
    ("서울역", "서울 역으로는"),
    ("민수", "민수씨와"),
    ("7시", "저녁 7시에"),
    ("睡眠", "昨晚睡眠不好"),
    ("手机", "没掏手机，躺下就睡"),
    ("カメラ", "新しいカメラを買う"),
    ("温泉旅行", "還暦祝いは温泉旅行"),
    ("\u0e01\u0e32\u0e41\u0e1f", "\u0e14\u0e37\u0e48\u0e21\u0e01\u0e32\u0e41\u0e1f\u0e23\u0e49\u0e2d\u0e19"),
    ("\u0643\u062a\u0627\u0628", "\u0648\u0627\u0644\u0643\u062a\u0627\u0628"),
    ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902"),
]
NOT_SAID = [
    ("6.5", "16.5 hours"),
    ("6.5", "6.55"),
    ("349", "$13499"),
    ("349", "13,499"),
    ("349", "3490"),
    ("7", "17"),
    ("7", "F7"),
    ("7", "#8E7CC3"),
    ("7", "2026-07-01T10:07:00"),
    ("7", "2026-05-26T20:00:00"),
    ("3.5", "3.5.1"),
    ("5", "5,000"),
    ("349", "349,000 won"),
    ("+4 g", "worst: -4 g"),
    ("-4", "4 degrees"),
    ("-4", "+4"),
    ("-4", "3-4"),
    ("20", "twenty-six"),
    ("7", "the Seventies"),
    ("21:00", "밤 1시"),
    ("12:00", "afternoon"),
    ("18:45", "18:46"),
    ("18:45", "06:45"),
    ("18:45", "오전 6:45"),
    ("15:40", "15.4 km"),
    ("15:40", "115.40"),
    ("15", "15.40 EUR"),
    ("18:45", "118:45"),
    ("07:20", "19:20"),
    ("8:21.4", "8:21.9"),
    ("2026-10-02", "2026-10-03T00:00:00"),
    ("2026-10-02", "2025-10-02"),
    ("2026-10-02", "12 October"),
    ("2026-10-02", "October 20"),
    ("2 October", "1\u20133 October 2026"),
    ("12 June", "13 June"),
    ("example.com/a/b", "https://evil.org/example.com/a/b"),
    ("example.com/a/b", "https://example.com.evil.org/a/b"),
    ("example.com/a/b", "https://notexample.com/a/b"),
    ("example.com/a/b", "https://example.com@evil.org/a/b"),
    ("example.com/a/b", "https://evil.org/?to=https://example.com/a/b"),
    ("example.com/a/b", "https://example.com/a/bc"),
    ("theverge.com", "theverge.com.evil.org"),
    ("tea", "steam"),
    ("tea", "teapot"),
    ("rib", "ribbon"),
    ("pier c", "pier d, c"),
    ("c", "c++"),
    ("커피", "아이스커피숍"),
    ("서울", "서울대학교"),
    ("パン", "パンダ"),
    ("十年", "二十年"),
    ("五章", "第十五章"),
    ("三", "十三"),
    ("January", "Janet"),
    ("mars", "in March"),
    ("\u0939\u093f\u0928", "\u0939\u093f\u0928\u094d\u0926\u0940"),
]


@pytest.mark.parametrize(("needle", "text"), SAID)
def test_other_spellings_say_the_same(needle: str, text: str) -> None:
    """A number, date, time, address or word counts in whatever way people and programs write it."""
    assert mentions(text, needle)


@pytest.mark.parametrize(("needle", "text"), NOT_SAID)
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
    mentions(piece * 10_000, "January 7")
    assert time.perf_counter() - start < 6


def test_only_a_mention_takes_every_dash_for_one() -> None:
    """What Memex looks for in prose is folded further than what matchers compare."""
    assert fold_text("10–12") != fold_text("10-12")
    assert normalize_mention("10–12") == normalize_mention("10-12")

"""Where two texts differ, word by word: exact, readable, bounded, and in every script."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.reports.text_difference import (
    MOST_STRETCH,
    Tag,
    align,
    compare_texts,
    fold_runs,
    words_of,
)

WORDS = st.sampled_from(
    ["a", "the ", " ", "\n", "b", ".", "가", "나", "東", "e\u0301", "👩\u200d👧", "\r\n", "ab"]
)
TEXTS = st.lists(WORDS, max_size=30).map("".join)
ITEMS = st.lists(st.sampled_from("abcd"), max_size=12)


def written(old: str, new: str) -> str:
    """Write a difference as programs for the terminal do."""
    marks: dict[Tag, str] = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
    return "".join(marks[tag].format(text) for tag, text in compare_texts(old, new).runs)


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ("I am sorry, it was refunded", "I am glad, it was not refunded",
         "I am [-sorry-]{+glad+}, it was {+not +}refunded"),
        ("It takes 1.5 s.", "It takes 1,200.5 s.", "It takes [-1.5-]{+1,200.5+} s."),
        ("it was", "it was refunded", "it was{+ refunded+}"),
        ("a\nb\nc\n", "a\nx\nc\n", "a\n[-b-]{+x+}\nc\n"),
        ("order #1234 to Seoul", "order #1235 to Busan", "order #[-1234-]{+1235+} to [-Seoul-]{+Busan+}"),
        ("환불이 완료되었습니다.", "환불이 접수되었습니다.", "환불이 [-완료-]{+접수+}되었습니다."),
        ("東京の天気は晴れです", "東京の天気は雨です", "東京の天気は[-晴れ-]{+雨+}です"),
        # Neither what stands by chance in both, nor a few words between larger changes.
        ("어느 편으로 할까요?", "KE120편을 예약", "[-어느 편으로 할까요?-]{+KE120편을 예약+}"),
        ("one two and three four", "five six and seven eight",
         "[-one two and three four-]{+five six and seven eight+}"),
        ("cafe\u0301 au lait", "cafe au lait", "[-cafe\u0301-]{+cafe+} au lait"),
        ("a 👩\u200d👧 b c", "a 👩\u200d👦 b c", "a [-👩\u200d👧-]{+👩\u200d👦+} b c"),
        ("한글\u1112\u1161\u11ab", "한글\u1112\u1161", "한글[-\u1112\u1161\u11ab-]{+\u1112\u1161+}"),
        ("a  b c", "a b c", "a[- -] b c"),
        ("one\ntwo\n", "one\ntwo\nthree\n", "one\ntwo\n{+three\n+}"),
        ("", "x", "{+x+}"),
        ("same", "same", "same"),
    ],
)  # fmt: skip
def test_the_words_that_differ_are_marked(old: str, new: str, difference: str) -> None:
    """In texts with blanks and without; no letter is torn from its accent, no emoji apart."""
    assert written(old, new) == difference


@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_from_the_runs(old: str, new: str) -> None:
    """Nothing is lost, and equal texts are one run; also where equal parts are folded."""
    runs = compare_texts(old, new).runs
    for given_runs in (runs, fold_runs(runs)):
        assert "".join(text for tag, text in given_runs if tag != "+") == old
        assert "".join(text for tag, text in given_runs if tag != "-") == new
    assert (old != new) or runs == ((("=", old),) if old else ())
    assert "".join(map("".join, words_of(old))) == old


def longest(old: Sequence[str], new: Sequence[str]) -> int:
    """Give the length of a longest common subsequence, as its definition says."""

    @cache
    def of(at: int, by: int) -> int:
        if at == len(old) or by == len(new):
            return 0
        return 1 + of(at + 1, by + 1) if old[at] == new[by] else max(of(at + 1, by), of(at, by + 1))

    return of(0, 0)


@given(ITEMS, ITEMS)
def test_an_alignment_has_the_most_that_both_have(old: list[str], new: list[str]) -> None:
    """Blocks follow one another through both sequences, in turn equal and not."""
    blocks = align(old, new).blocks

    for side, sequence in ((1, old), (2, new)):
        ends = [0, *(block[side].stop for block in blocks)]
        assert [block[side].start for block in blocks] == ends[:-1]
        assert ends[-1] == len(sequence)
    equal = [block for block in blocks if block.is_equal]
    assert all(old[block.old] == new[block.new] != [] for block in equal)
    assert sum(len(old[block.old]) for block in equal) == longest(old, new)
    assert all(one.is_equal != other.is_equal for one, other in pairwise(blocks))


def test_the_middle_of_a_long_equal_part_is_left_out() -> None:
    """Lines beside a change stay whole, and so do words of a text without lines."""
    lines = "".join(f"line {at} of the text\n" for at in range(100))
    runs = fold_runs(compare_texts(f"{lines}old\n{lines}", f"{lines}new\n{lines}").runs)
    assert [tag for tag, _ in runs] == ["~", "=", "-", "+", "=", "~"]
    assert runs[1][1].startswith("line 93 of")
    assert runs[4][1].endswith("line 7 of the text\n")

    words = "word " * 200
    runs = fold_runs(compare_texts(f"{words}old {words}", f"{words}new {words}").runs)
    assert {text[0] for tag, text in runs if tag == "="} <= {"w", " "}
    assert all(len(text) <= 165 for tag, text in runs if tag == "=")


def test_huge_texts_take_no_time_and_say_that_they_were_too_long() -> None:
    """Ten megabytes in a line, and 20,000 lines of which each differs."""
    begun = time.monotonic()
    word = compare_texts("a" * 10_000_000, "b" * 10_000_000)
    lines = compare_texts("x\n" * 20_000, "".join(f"{at}\n" for at in range(20_000)))
    ends = compare_texts("same\n" + "가" * MOST_STRETCH, "same\n" + "나" * (MOST_STRETCH + 1))

    assert time.monotonic() - begun < 5
    assert word.is_coarse
    assert [tag for tag, _ in word.runs] == ["-", "+"]
    assert lines.is_coarse
    assert ends.runs[0] == ("=", "same\n")
    assert not compare_texts("가" * (MOST_STRETCH - 1), "가" * (MOST_STRETCH - 1) + "나").is_coarse

"""No way to write a text hides it, as long as it is the same text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.loop.contamination.prompt_index import PromptIndex, alphanumeric

ALPHABETS = {
    "Latin": "abcxyzäößéñłø0123456789",
    "Cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяё",
    "Greek": "αβγδεζηθικλμνξοπρστυφχψωάέήίόύώς",
    "Hangul": "가나다라마바사힣글꽃뷁",
    "Han": "上下左右渡口水位石头茶窖",
    "kana": "あいうがぎぐぱんゃっアイウガギグパンャッー",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهويأإآ",
    "Hebrew": "אבגדהוזחטיכלמנסעפצקרשתםן",
    "Devanagari": "कखगघचजतदनपबमयरलवशसहािीुूेैोौ्",
    "Thai": "กขคงจชซตทนบปพมยรลวสหอะาิีึืุูเแโใไ่้",
}
BETWEEN = ("\u200b", "\u00ad", "\u2060", "\u202e", " ", "-", "_", "**", "\n", "\r\n", "·", "、", "<")


def letters(text: str) -> list[str]:
    """Take a text apart, each mark with the letter that it belongs to."""
    apart: list[str] = []
    for char in text:
        if apart and unicodedata.category(char)[0] == "M":
            apart[-1] += char
        else:
            apart.append(char)
    return apart


def wide(text: str) -> str:
    """Write ASCII in full width."""
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def escaped(text: str) -> str:
    """Write what is not ASCII as JSON does, line for line."""
    pairs = text.encode("utf-16-be")
    codes = (int.from_bytes(pairs[place : place + 2], "big") for place in range(0, len(pairs), 2))
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)


def entities(text: str) -> str:
    """Write everything as HTML may, but for ends of lines."""
    return "".join(char if char in "\r\n" else f"&#x{ord(char):x};" for char in text)


SPELLINGS: list[Callable[[str], str]] = [
    str,
    str.upper,
    str.title,
    wide,
    lambda text: unicodedata.normalize("NFD", text),
    escaped,
    entities,
]
needles = st.sampled_from(sorted(ALPHABETS)).flatmap(
    lambda script: st.text(ALPHABETS[script], min_size=12, max_size=30).filter(
        lambda text: len(alphanumeric(text)) >= 8 and unicodedata.category(text[0])[0] != "M"
    )
)


@given(needles, st.sampled_from(BETWEEN), st.integers(1, 5), st.sampled_from(SPELLINGS))
def test_a_text_is_found_however_it_is_written(
    needle: str, between: str, each: int, spelling: Callable[[str], str]
) -> None:
    """Its first line is told, and its words are the prompt's own."""
    parts = letters(needle)
    groups = ["".join(parts[place : place + each]) for place in range(0, len(parts), each)]
    index = PromptIndex({"p": f"first line\nand then {spelling(between.join(groups))} behind\nlast line"})

    spans = list(index.places_of_value(alphanumeric(needle)))

    assert spans
    assert {index.line_of(span) for span in spans} == {2}
    assert alphanumeric(index.words_of(spans[-1])) == alphanumeric(needle)


@given(needles, st.text(max_size=100))
def test_what_does_not_stand_there_is_not_found(needle: str, prompt: str) -> None:
    """Whatever else does: the prompt's letters alone decide, as they are or with escapes written out."""
    index = PromptIndex({"p": prompt})
    holds = any(alphanumeric(needle) in reading.folded.compact for reading in index.readings)
    assert holds or not list(index.places_of_value(alphanumeric(needle)))


@pytest.mark.parametrize(
    ("value", "prompt", "stands"),
    [
        ("gravel", "eyes like gravel.", True),
        ("gravel", "two gravels", True),
        ("gravel", "gravelly voices", True),
        ("gravel", "engraveled", False),
        ("gravel", "ungravel", False),
        ("harrowjunction", "theharrowjunctionstation", True),
        ("48091", "148091", False),
        ("48091", "48,091", True),
        ("48091", "480915", False),
        ("48091", "BX48091b", True),
        ("水位四十二", "记下水位四十二厘米", True),
        ("풀잎테이블", "서면풀잎테이블에서", True),
        ("النخيل", "بوادي والنخيل", True),
    ],
)
def test_short_texts_are_no_part_of_other_words(value: str, prompt: str, stands: bool) -> None:
    """Where words stand apart a short one begins where a word does, and a number is whole."""
    assert bool(list(PromptIndex({"p": prompt}).places_of_value(alphanumeric(value)))) == stands

"""Equal, folded and number have one meaning each; where readers differ on purpose, names say so."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from pytest_agenteval.text.json_values import (
    fold_compact,
    fold_text,
    fold_texts,
    normal_keys,
    normal_text,
    number_of,
)


def test_only_the_compact_fold_takes_words_apart_and_together_for_one() -> None:
    """Cassettes take the station's name in both spellings, a grader's matcher tells them apart."""
    assert fold_compact(" 서울  역") == fold_compact("서울역") == "서울역"
    assert fold_text(" 서울  역") == "서울 역" != fold_text("서울역")


def test_case_width_and_kinds_of_space_never_matter() -> None:
    """All texts inside of a value are folded, keys are not."""
    assert fold_texts({"Key": ["Ａ\u3000B ", ("ẞ",)]}) == {"Key": ["a b", ["ss"]]}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (" 37.50 ", "37.50"),
        ("-1e3", "-1E+3"),
        ("1_000", None),
        ("٣", None),
        (".5", None),
        (0.1, "0.1"),
        (True, None),
        ("NaN", None),
        (float("inf"), None),
        ("", None),
        ("1e999999", None),
    ],
)
def test_a_number_is_what_json_writes(written: Any, read: str | None) -> None:
    """Matchers and cassettes read one notation, and neither takes a truth value."""
    assert number_of(written) == (None if read is None else Decimal(read))


def test_a_normal_text_is_composed_with_newlines_and_no_byte_order_mark() -> None:
    """What editors and systems add or spell otherwise makes no difference; a mark alone is a text."""
    assert normal_text("\ufeffcafe\u0301\r\nb\rc") == "caf\u00e9\nb\nc"
    assert normal_text("\ufeff") == "\ufeff"


@pytest.mark.parametrize("form", [normal_text, fold_text])
def test_endless_marks_take_no_time(form: Callable[[str], str]) -> None:
    """Putting 80,000 of them in order takes seconds: from 33 in a row on, a text stays as it is."""
    marks = "a" + "\u0301\u0323" * 16
    assert form(marks) == unicodedata.normalize("NFC", marks)
    assert form(marks + "\u0323") == marks + "\u0323"

    began = time.process_time()
    form("a" + "\u0301\u0323" * 40_000)
    assert time.process_time() - began < 0.5


def test_keys_that_have_one_normal_form_stay_apart() -> None:
    """No value is lost, in whatever order the keys come."""
    composed, apart, other = "\u1e69", "s\u0323\u0307", "s\u0307\u0323"
    assert normal_keys({apart: 1}) == {composed: 1}
    assert (
        normal_keys({apart: 1, composed: 2})
        == {apart: 1, composed: 2}
        == normal_keys({composed: 2, apart: 1})
    )
    assert normal_keys({apart: 1, other: 2}) == {composed: 1, other: 2}

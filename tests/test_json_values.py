"""Equal, folded and number have one meaning each; where readers differ on purpose, names say so."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from pytest_agenteval.json_values import (
    fold_compact,
    fold_text,
    fold_texts,
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

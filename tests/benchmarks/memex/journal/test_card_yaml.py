"""How cards are written to disk and read back."""

from __future__ import annotations

import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex import journal

CHARACTERS = st.characters(codec="utf-8", exclude_characters="\ufffe\uffff") | st.sampled_from(
    string.punctuation + " \n\t0123456789"
)
TEXTS = st.text(CHARACTERS, max_size=30)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
CARDS = st.dictionaries(TEXTS, VALUES, min_size=1, max_size=5)


@given(CARDS)
def test_what_is_written_is_read_back(card: dict[str, object]) -> None:
    """Every JSON object survives the way to disk and back, types and all."""
    assert journal.parse_card(journal.card_text(card)) == card


@given(CARDS)
def test_any_yaml_reader_will_do(card: dict[str, object]) -> None:
    """PyYAML's own loader, not only ours, reads texts that look like dates or numbers as texts."""
    assert yaml.safe_load(journal.card_text(card)) == card


def test_the_layout_is_the_stated_one() -> None:
    """Two spaces of indent, lists in block form, keys in their order, quotes only where needed."""
    card = {
        "fact_id": "2026/09/17.md#ts_1",
        "timestamp": 1789635600,
        "tags": ["Trip", "Health"],
        "comments": [],
        "ui_configs": [
            {"template_id": "event", "data": {"title": "Ferry: the last one", "stops": [["a"], {}]}}
        ],
        "title": "Last ferry home",
    }

    assert journal.card_text(card) == (
        'fact_id: "2026/09/17.md#ts_1"\n'
        "timestamp: 1789635600\n"
        "tags:\n"
        "  - Trip\n"
        "  - Health\n"
        "comments: []\n"
        "ui_configs:\n"
        "  - template_id: event\n"
        "    data:\n"
        '      title: "Ferry: the last one"\n'
        "      stops:\n"
        "        -\n"
        "          - a\n"
        "        - {}\n"
        "title: Last ferry home\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a: b",
            "two\nlines",
            'say "hi"',
            "it's",
            "a #tag",
            " edge",
            "edge ",
            "",
            "- item",
            "*bold*",
            "@home",
        ),
        *(
            "12",
            "3.5",
            "-4",
            "+5",
            "1e5",
            "0x1F",
            "2026-09-22",
            "18:45",
            "true",
            "No",
            "null",
            "~",
            "=",
            ".5",
        ),
    ],
)
def test_texts_that_yaml_would_misread_are_quoted(text: str) -> None:
    """What holds marks, or looks like something else than a text, stands in double quotes."""
    assert journal.card_text({"k": text}).startswith('k: "')


@pytest.mark.parametrize(
    "text",
    [
        "Copper Canals, again",
        "15 minutes",
        "Café Ölands",
        "睡眠",
        "🥱",
        "50% done",
        "a - b",
        "C&A",
        "back\\slash",
    ],
)
def test_ordinary_texts_stay_bare(text: str) -> None:
    """Ordinary words stand as they are, so that people and substring graders can read them."""
    assert journal.card_text({"k": text}) == f"k: {text}\n"


def test_long_texts_are_not_folded() -> None:
    """A phrase never breaks over two lines, however long it is."""
    phrase = "word " * 100 + "end"

    assert journal.card_text({"k": phrase}) == f"k: {phrase}\n"


def test_half_a_character_does_not_break_the_file() -> None:
    """A lone surrogate, which a model's JSON can hold, is written as the replacement character."""
    text = journal.card_text({"k": "a\ud83d"})

    assert text.encode("utf-8")
    assert journal.parse_card(text) == {"k": "a\ufffd"}


@pytest.mark.parametrize("text", ["a: b: c", "- list", "", "\x00", "when: 2026-99-99"])
def test_a_broken_card_is_an_empty_card(text: str) -> None:
    """A file that is no YAML map counts as a card with nothing in it; no file as no card."""
    assert journal.parse_card(text) == {}
    assert journal.parse_card(None) is None

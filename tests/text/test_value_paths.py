"""One reader of paths into values: strict for authors, loose for what others wrote."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_agenteval.text.json_values import ABSENT, PathError, loose_path, parse_path, value_at

VALUE = {"items": [{"title": "빵", "a.b": 1}], "items[*]": 2}


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("items[0].title", ("items", 0, "title")),
        ("", ()),
        ("[2]", (2,)),
        ("items[*].title", ("items", "title")),
        ("items[].title", ("items", "title")),
        ("..a..b.", ("a", "b")),
    ],
)
def test_a_loose_path_passes_over_what_is_no_step(text: str, steps: tuple[Any, ...]) -> None:
    """Data that others wrote cannot be corrected: nothing is refused, and what is meant is found."""
    assert loose_path(text) == steps


@pytest.mark.parametrize("text", ["", "items[*].title", "..a", "a.", 'items[0]."a.b'])
def test_a_strict_path_says_from_where_it_cannot_be_read(text: str) -> None:
    """An author is told the part that is wrong, and nothing is guessed."""
    with pytest.raises(PathError) as caught:
        parse_path(text)

    assert text.endswith(caught.value.rest)


def test_both_lead_to_the_same_value() -> None:
    """What stands there is given as it is; where nothing does, that is ABSENT, which no value is."""
    assert value_at(VALUE, parse_path('items[0]."a.b"')) == 1
    assert (
        value_at(VALUE, loose_path("items[0].title")) == value_at(VALUE, parse_path("items[0].title")) == "빵"
    )
    assert value_at(VALUE, loose_path("")) is VALUE
    assert value_at(VALUE, loose_path("items[1].title")) is ABSENT
    assert value_at(VALUE, loose_path("items.title")) is ABSENT

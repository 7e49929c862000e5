"""Replies of judges as Memex reads them: what is read out of them, and why some cannot be read."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agenteval.benchmarks.memex.graders.pkm_judged import parse_upstream_reply
from pytest_agenteval.graders.judge.verdicts import UnreadableReply
from tests.graders.judge.judges import rubric

RUBRIC = rubric()


@pytest.mark.parametrize("depth", [10, 500, 950, 5000])
def test_no_nesting_breaks_the_reading(depth: int) -> None:
    """However deep a verdict lies, it is found or the reply is unreadable, and nothing else happens."""
    opened, closed = "[" * depth, "]" * depth
    with suppress(UnreadableReply):
        reply = f'{{"warmth": {opened}{closed}, "clarity": 1}}'
        assert parse_upstream_reply(reply, RUBRIC).scores.keys() == {"warmth", "clarity"}


@given(st.text())
@example("{}")
def test_no_reply_breaks_the_reading(reply: str) -> None:
    """Whatever a judge writes, it is a verdict with a score for each dimension, or unreadable."""
    with suppress(UnreadableReply):
        assert list(parse_upstream_reply(reply, RUBRIC).scores) == ["warmth", "clarity"]


SCALARS = st.none() | st.booleans() | st.floats() | st.integers() | st.text()


@given(st.dictionaries(st.sampled_from(["warmth", "clarity", "x"]), SCALARS | st.lists(SCALARS)))
def test_no_json_breaks_the_reading(value: Any) -> None:
    """Scores lie in 0..1, whatever stands in their place."""
    with suppress(UnreadableReply):
        scores = parse_upstream_reply(json.dumps(value), RUBRIC).scores
        assert all(score is None or 0 <= score <= 1 for score in scores.values())


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ('{"warmth": 7, "clarity": -1}', {"warmth": 1.0, "clarity": 0.0}),
        ('{"warmth": 1' + "0" * 400 + ', "clarity": {}}', {"warmth": 1.0, "clarity": None}),
        ('{"warmth": true, "clarity": "high"}', {"warmth": None, "clarity": None}),
        ('{"warmth": [1]}', {"warmth": None, "clarity": None}),
        ('{"warmth": "Infinity", "clarity": "NaN"}', {"warmth": 1.0, "clarity": None}),
        ('{"warmth": "1_0", "clarity": " 5e-1 "}', {"warmth": None, "clarity": 0.5}),
        ('x ```json\n{"warmth": 1}\n``` {"clarity": 1}', {"warmth": 1.0, "clarity": None}),
        ('```\n{"warmth": 1}', {"warmth": 1.0, "clarity": None}),
        ('{"warmth": 1, "rationale": null}', {"warmth": 1.0, "clarity": None}),
    ],
)
def test_upstream_bends_what_it_reads(reply: str, scores: dict[str, float | None]) -> None:
    """Memex clamps numbers, takes what is no number for unknown, and looks into the first fence only."""
    assert parse_upstream_reply(reply, RUBRIC).scores == scores


@pytest.mark.parametrize(
    "reply", ['{"warmth": 1, "rationale": 5}', '{"warmth": NaN}', "[1]", '}{"warmth": 1', "```{}```"]
)
def test_upstream_gives_up_on_what_is_no_single_object(reply: str) -> None:
    """From the first brace to the last there has to be one object, whose rationale is text if it is there."""
    with pytest.raises(UnreadableReply, match="no verdict in: "):
        parse_upstream_reply(reply, RUBRIC)


def test_upstream_quotes_the_start_of_what_it_could_not_read() -> None:
    """The first 120 characters, as Memex does."""
    with pytest.raises(UnreadableReply) as caught:
        parse_upstream_reply("ab" * 100, RUBRIC)

    assert str(caught.value) == "no verdict in: " + "ab" * 60

"""The Korean tasks take a fact in whichever words it is said, and answer who asks in other words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_agenteval.cassettes.interaction import text_of
from tests.extended.shipped_evals.korean.playing import HERE, names, read, says_the_facts, tape, unanswered

SAID = read(HERE / "answers.yaml") | read(HERE / "later_answers.yaml")
ASKED = read(HERE / "calls.yaml") | read(HERE / "later_calls.yaml")
NAMES = names(["L1", "L2", "L3", "L4", "L5", "L6", "L7"])
AROUND = re.compile(r"/(?:category|keyword|around)\b.*[?&]radius=([1-9]\d*)")
DISTANCE = re.compile(r'"(?:distance|radius)": "(\d[\d.]*)"')


def test_each_task_has_answers_in_other_words() -> None:
    """A task without them is a task whose words nobody tried."""
    assert sorted(SAID) == NAMES


def test_a_fact_is_found_in_other_words() -> None:
    """Units, honorifics, tables, bold type, other orders, rounding as people round: the fact is the same."""
    assert [each for each in _answers("right") if not says_the_facts(*each)] == []


def test_another_fact_is_not_found() -> None:
    """Nor does the neighbour's number, the wrong direction, a list of all in place of one, or giving up."""
    assert [each for each in _answers("wrong") if says_the_facts(*each)] == []


def _answers(which: str) -> Iterator[tuple[str, str]]:
    return ((name, answer) for name in SAID for answer in SAID[name][which])


def test_a_call_of_a_right_run_is_answered() -> None:
    """Other search words, radii, sizes and orders, and all defaults written out, find a recording."""
    assert [(name, *call) for name in ASKED for call in unanswered(name, ASKED[name])] == []


def test_what_lies_around_a_place_is_within_the_radius() -> None:
    """A search around a place finds nothing that is farther than it was asked to look."""
    for item in (item for name in NAMES for item in tape(name).own.cassette.interactions):
        radius = AROUND.search(item.request.uri)
        distances = DISTANCE.findall(text_of(item.response.body)) if radius else []
        assert [distance for distance in distances if radius and float(distance) > float(radius[1])] == [], (
            item.request.uri
        )

"""What each template asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_agenteval.benchmarks.memex.card_agent.agent import catalogue, template_problems

LEAST: Mapping[str, Mapping[str, Any]] = {
    "link": {"url": "https://example.org"},
    "person": {"name": ""},
    "place": {"name": "Rovira"},
    "spec_sheet": {},
    "transaction": {"merchant": "Rapid Key", "amount": "118.75 EUR"},
    "metric": {"items": [{"title": "Rain", "value": 23.5}]},
    "rating": {"subject": "Copper Canals", "score": 7},
    "mood": {"mood_name": "proud", "color_hex": "#8E7CC3"},
    "progress": {"current": 14, "total": 20},
    "event": {"start_time": "2026-09-18T18:45:00"},
    "duration": {"elapsed_seconds": 90},
    "task": {},
    "routine": {"habit_name": "Ukulele", "streak": 0},
    "procedure": {"steps": ["boil"]},
    "compact": {"color": "#90A4AE"},
    "snippet": {"text": "a thought"},
    "article": {"body": "long"},
    "conversation": {"messages": [{"text": "hello"}]},
    "quote": {"content": "the other bank"},
    "snapshot": {"image_url": "fs://a.jpg"},
    "gallery": {"image_urls": ["fs://a.jpg"]},
    "video": {"video_url": "fs://a.mp4"},
}
ONE_GONE = [(id, name) for id, data in LEAST.items() for name in data]


def test_there_are_the_22_templates() -> None:
    """The catalogue holds the template ids that a card can have, and no others."""
    assert list(catalogue()) == list(LEAST)


@pytest.mark.parametrize("id", LEAST)
def test_the_required_fields_are_enough(id: str) -> None:
    """A template with its required fields, and with odd extra ones, is accepted."""
    assert template_problems(catalogue()[id], {**LEAST[id], "something": ["else"], "title": None}) == []


@pytest.mark.parametrize(("id", "gone"), ONE_GONE)
def test_a_required_field_must_be_there(id: str, gone: str) -> None:
    """Without any one of its required fields a template is refused, and the field is named."""
    data = {name: value for name, value in LEAST[id].items() if name != gone}
    problems = template_problems(catalogue()[id], data)

    assert len(problems) == 1
    assert gone in problems[0]


@pytest.mark.parametrize(("id", "wrong"), ONE_GONE)
def test_a_required_field_must_be_of_its_kind(id: str, wrong: str) -> None:
    """A required field of another kind is refused: true is no text, no number and no list."""
    problems = template_problems(catalogue()[id], {**LEAST[id], wrong: True})

    assert len(problems) == 1
    assert wrong in problems[0]


@pytest.mark.parametrize(
    ("id", "data", "beginning"),
    [
        ("link", {"url": "  "}, "url must be a text that is not blank, not '  ' (text)"),
        ("metric", {"items": []}, "items must be a list of objects, at least one, not an empty list"),
        ("metric", {"items": ["a"]}, "items[0] must be an object, not 'a' (text)"),
        (
            "metric",
            {"items": [{"title": "a", "value": "7"}]},
            "items[0].value must be a number, not '7' (text)",
        ),
        ("transaction", {**LEAST["transaction"], "items": [{"name": "a"}]}, "items[0].amount is missing"),
        ("task", {"subtasks": [{"completed": True}]}, "subtasks[0].title is missing: a text"),
        ("task", {"subtasks": "all"}, "subtasks must be a list of objects, at least one, not 'all' (text)"),
        ("duration", {"elapsed_seconds": 1.5}, "elapsed_seconds must be a whole number, not 1.5"),
        ("procedure", {"steps": ["a", 1]}, "steps must be a list of texts, at least one, not a list of 2"),
        (
            "gallery",
            {"image_urls": []},
            "image_urls must be a list of texts, at least one, not an empty list",
        ),
        ("mood", {"color_hex": "#fff"}, "one of mood_name, mood must be there, as a text"),
    ],
)
def test_a_complaint_says_where_and_what(id: str, data: Mapping[str, Any], beginning: str) -> None:
    """A refusal names the place, what was expected and what was found."""
    (problem,) = template_problems(catalogue()[id], data)

    assert problem.startswith(beginning)


def test_a_mood_may_go_by_either_name() -> None:
    """Of two fields that mean the same, one is enough."""
    assert template_problems(catalogue()["mood"], {"mood": "calm", "color_hex": "#fff"}) == []

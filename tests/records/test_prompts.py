"""Which prompts a trial's agent has read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytest_agenteval.records.prompts import Prompts


@pytest.mark.parametrize(
    ("read", "names", "recorded"),
    [
        (lambda prompts: prompts.render("hello"), {"hello", "tone", "name"}, ["hello", "tone", "name"]),
        (lambda prompts: prompts.texts["tone"], {"tone", "name"}, ["tone", "name"]),
        (lambda prompts: prompts.texts.get("name"), {"name"}, ["name"]),
        (lambda prompts: prompts.texts.get("none"), set(), []),
        (lambda prompts: prompts.record_read("hello"), {"hello", "tone", "name"}, ["hello", "tone", "name"]),
        # To be combined elsewhere: nobody knows which of them matter.
        (lambda prompts: dict(prompts.texts.items()), {"hello", "tone", "name", "unused"}, []),
        (lambda prompts: "tone" in prompts.texts, set(), []),
    ],
)
def test_a_trial_knows_which_prompts_it_has_read(
    read: Callable[[Prompts], object], names: set[str], recorded: list[str]
) -> None:
    """With those that they include; no other trial of the agent has read them by that."""
    tone = '{% include "name" %}, be kind.'
    own = Prompts({"hello": '{% include "tone" %}', "tone": tone, "name": "Mina", "unused": ""}, {})
    found: list[str] = []
    first, second = (own.recorded_by(lambda name, digest: found.append(name)) for _ in range(2))

    read(first)

    assert (first.names_read, found) == (names, recorded)
    assert (second.names_read, own.names_read) == (set(), set())

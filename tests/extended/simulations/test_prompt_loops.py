"""Simulated loops, with as few draws as a test can spend; a full run draws two thousand."""

from __future__ import annotations

from tests.extended.simulations.prompt_loops import Loop, count_confirmed, endings


def test_prompts_that_are_no_better_are_rarely_confirmed() -> None:
    """With at most 5 % expected, 4 of 20 loops are out of reach of chance; they end where nothing is kept."""
    ended = endings(Loop("same"), 20, "test")
    assert count_confirmed(ended) < 4
    assert {ending.rounds for ending in ended} >= {2}
    assert all(ending.kept or not ending.confirmed for ending in ended)


def test_a_prompt_that_mends_a_fifth_of_everything_is_confirmed() -> None:
    """Nearly always kept, and nearly always confirmed."""
    assert count_confirmed(endings(Loop("diffuse .2"), 6, "test")) >= 4

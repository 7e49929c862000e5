"""Simulated loops, with as few draws as a test can spend; a full run draws two thousand."""

from __future__ import annotations

from tests.simulations.prompt_loops import count_confirmed, endings


def test_prompts_that_are_no_better_are_rarely_confirmed() -> None:
    """With at most 5 % expected, 4 of 20 loops are out of reach of chance; they end where nothing is kept."""
    played = endings("same", 20, "test")
    assert count_confirmed(played) < 4
    assert {ending.rounds for ending in played} >= {2}
    assert all(ending.kept or not ending.confirmed for ending in played)


def test_a_prompt_that_mends_a_fifth_of_everything_is_confirmed() -> None:
    """Nearly always kept, and nearly always confirmed."""
    assert count_confirmed(endings("diffuse .2", 6, "test")) >= 4

"""Processes that share a model by a file."""

from __future__ import annotations

from pathlib import Path

from tests.chat.test_rate_processes import asking, spans, wait_for


def test_who_asks_little_is_not_starved_and_all_together_keep_to_the_width(tmp_path: Path) -> None:
    """One with fifty requests waiting, one with two: both are asked, and never more than four at once."""
    with asking(tmp_path, "greedy"):
        wait_for(tmp_path / "greedy", 10)
        with asking(tmp_path, "modest", requests=2):
            wait_for(tmp_path / "modest", 10)
            before = len(spans(tmp_path / "greedy"))
            wait_for(tmp_path / "modest", 30)
            meanwhile = len(spans(tmp_path / "greedy")) - before

    assert 5 <= meanwhile <= 80
    every = [*spans(tmp_path / "greedy"), *spans(tmp_path / "modest")]
    at_once = [sum(began <= at < ended for began, ended in every) for at, _ in every]
    assert max(at_once) == 4

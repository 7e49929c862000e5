"""The reasons why mutants may live belong to code that is there."""

from __future__ import annotations

from tests.extended.mutants.__main__ import excuses, stale


def test_no_reason_excuses_what_is_no_more() -> None:
    """Whoever changes or moves such a row looks at its reason again."""
    assert list(stale(excuses())) == []

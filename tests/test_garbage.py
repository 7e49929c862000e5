"""Garbage is looked for again, whatever happens where it was not."""

from __future__ import annotations

import gc
from contextlib import suppress

from pytest_agenteval.garbage import garbage_uncollected


def test_garbage_is_looked_for_again_afterwards() -> None:
    """Also where the block raises, and one within another gives way to the outer."""
    with suppress(ValueError), garbage_uncollected():
        with garbage_uncollected():
            pass
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_who_looks_for_none_is_left_alone() -> None:
    """A user who switched the collector off finds it so."""
    gc.disable()
    try:
        with garbage_uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

"""Fixtures of the tests that run pytest on suites."""

from __future__ import annotations

import pytest


@pytest.fixture(params=[0, 2], ids=["one-process", "two-workers"])
def workers(request: pytest.FixtureRequest) -> int:
    """Every promise of the plugin holds with xdist and without."""
    count: int = request.param
    return count

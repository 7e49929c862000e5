"""Fixtures of the tests that run pytest on suites."""

from __future__ import annotations

import pytest

from tests.suites import only_our_plugin


@pytest.fixture
def quick(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner runs of pytest know nothing but this plugin; pytester comes first, for it clears the options."""
    only_our_plugin(monkeypatch)


@pytest.fixture(params=[0, 2], ids=["one-process", "two-workers"])
def workers(request: pytest.FixtureRequest) -> int:
    """Every promise of the plugin holds with xdist and without."""
    count: int = request.param
    return count

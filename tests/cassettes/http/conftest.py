"""After each test other tests get their libraries back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_agenteval.cassettes.http.patches import remove
from tests.cassettes.http.server import Server, serving


@pytest.fixture(autouse=True)
def _patch_removed() -> Iterator[None]:
    yield
    remove()


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that is really asked."""
    with serving() as started:
        yield started

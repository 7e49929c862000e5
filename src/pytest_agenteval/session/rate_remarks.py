"""What is said of models that put requests off, or were gone for a while."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pytest_agenteval.engine.jobs import standings_of_run
from pytest_agenteval.session.run_info import get_run_info

if TYPE_CHECKING:
    from pytest_agenteval.chat.rate_shares import ModelStanding


def rate_lines(config: pytest.Config) -> Iterator[str]:
    """Say of each model how often it put a request off, and what became of it."""
    for standing in standings_of_run(str(get_run_info(config).rates)).values():
        if parts := list(_parts(standing)):
            yield f"{standing.name}: {', '.join(parts)}"


def _parts(standing: ModelStanding) -> Iterator[str]:
    for status, number in sorted(standing.refused.items()):
        yield f"{status} x {number}"
    if standing.least:
        yield f"held to {standing.least} at once"
    if standing.down is not None:
        yield "asked no more"
    elif standing.outages:
        yield "gone for a while" if standing.outages == 1 else f"gone for a while, {standing.outages} times"

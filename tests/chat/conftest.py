"""What tests of chats share: one loop, and a trial for each wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_agenteval.chat import litellm_chat
from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.records.plan import Via

from .bench import Bench


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    """One loop for all asks of a process, as in a run."""
    with asyncio.Runner() as runner:
        yield runner
        runner.run(litellm_chat.close())
        runner.run(http_pool.close())


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> str:
    """Every promise about real models holds in both wire formats."""
    return str(request.param)


@pytest.fixture(params=["direct", "litellm"])
def via(request: pytest.FixtureRequest) -> Any:
    """Every promise about real models holds in both ways of asking them."""
    return request.param


@pytest.fixture
def bench(loop: asyncio.Runner, wire: str, via: Via) -> Bench:
    """A trial that asks in one of the two wire formats, in one of the two ways."""
    return Bench(loop, wire, via)

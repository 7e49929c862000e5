"""What tests of chats share: one loop, and a trial for each wire format."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pytest_agenteval.chat import litellm_chat

from .bench import Bench


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    """One loop for all asks of a process, as in a run."""
    with asyncio.Runner() as runner:
        yield runner
        runner.run(litellm_chat.close())


@pytest.fixture(params=["openai", "anthropic"])
def wire(request: pytest.FixtureRequest) -> str:
    """Every promise about real models holds in both wire formats."""
    return str(request.param)


@pytest.fixture
def bench(loop: asyncio.Runner, wire: str) -> Bench:
    """A trial that asks in one of the two wire formats."""
    return Bench(loop, wire)

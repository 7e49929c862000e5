"""What tests of chats share: one loop, and a trial for each way of asking."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pytest_agenteval.chat import litellm_chat
from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.records.plan import Via

from .bench import Bench

WAYS: tuple[tuple[str, Via], ...] = (("openai", "direct"), ("anthropic", "direct"), ("openai", "litellm"))
"""Wire formats of providers, and the ways in which tests ask for them."""


@pytest.fixture(scope="session")
def loop() -> Iterator[asyncio.Runner]:
    """One loop for all asks of a process, as in a run."""
    with asyncio.Runner() as runner:
        yield runner
        runner.run(litellm_chat.close())
        runner.run(http_pool.close())


@pytest.fixture
def bench(loop: asyncio.Runner, request: pytest.FixtureRequest) -> Bench:
    """A trial that asks in one of the wire formats, in one of the ways."""
    wire, via = request.param
    return Bench(loop, wire, via)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every promise about real models holds in both wire formats, asked directly or by litellm.

    A module may name its own ``WAYS``. litellm takes ten times as long: it is asked in one format here, and
    in both by ``tests/extended/litellm``.
    """
    if "bench" in metafunc.fixturenames:
        ways = getattr(metafunc.module, "WAYS", WAYS)
        metafunc.parametrize("bench", ways, indirect=True, ids="-".join)

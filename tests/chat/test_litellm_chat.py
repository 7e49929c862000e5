"""litellm is closed at the end of a run."""

from __future__ import annotations

import asyncio

import pytest

from pytest_agenteval.chat import litellm_chat

from .bench import Bench, ModelServer, ReplyPlan

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_connections_that_were_closed_are_not_used_again(loop: asyncio.Runner, wire: str) -> None:
    """A run that ends closes its connections; the next one in the same process has its own."""
    bench = Bench(loop, wire, "litellm")
    with ModelServer([ReplyPlan(text="hello")]) as server:
        first = bench.ask(bench.chat(server))
        bench.loop.run(litellm_chat.close())
        second = bench.ask(bench.chat(server))

    assert (first.text, second.text) == ("hello", "hello")

"""litellm is closed at the end of a run."""

from __future__ import annotations

import asyncio

import pytest

from pytest_agenteval.chat import litellm_chat

from . import test_asking, test_streaming
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


def test_what_is_anthropics_own_holds_through_litellm(loop: asyncio.Runner) -> None:
    """Signed thoughts, arguments that are no JSON and quoted errors: all else is asked in OpenAI's format."""
    for stream in (False, True):
        bench = Bench(loop, "anthropic", "litellm")
        test_asking.test_reasoning_is_read_and_signed_thoughts_go_back(bench, stream)
    for test in (
        test_streaming.test_malformed_arguments_are_kept_as_text_and_can_be_answered,
        test_streaming.test_a_provider_that_will_not_stream_is_quoted_in_its_own_words,
    ):
        test(Bench(loop, "anthropic", "litellm"))

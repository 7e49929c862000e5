"""litellm, asked over the loopback server, behaves as our chat adapter supposes."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, TypeAlias

import pytest

from tests.loopback.model_server import ModelServer, ReplyPlan

# litellm warns about its own code, which a run that turns warnings into errors would take for ours.
pytestmark = pytest.mark.filterwarnings("ignore")

QUESTION = {"role": "user", "content": "What is 1 + 2?"}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
MODELS = {
    "openai": "openai/gpt-5.5",
    "responses": "openai/responses/gpt-5.5",
    "anthropic": "anthropic/claude-sonnet-4-5",
}
RATES = {
    "openai": (5e-06, 5e-07, 3e-05),
    "responses": (5e-06, 5e-07, 3e-05),
    "anthropic": (3e-06, 3e-07, 1.5e-05),
}

Ask: TypeAlias = Callable[..., Any]


@pytest.fixture(params=["openai", "responses", "anthropic"])
def provider(request: pytest.FixtureRequest) -> str:
    """Every promise about litellm holds in each wire format."""
    return str(request.param)


@pytest.fixture(scope="module")
def litellm() -> Iterator[Any]:
    """litellm, imported late because that takes seconds, with its price list from disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        module = pytest.importorskip("litellm")
        patch.setattr(module, "suppress_debug_info", True)
        yield module


@pytest.fixture(scope="module")
def loop(litellm: Any) -> Iterator[asyncio.Runner]:
    """One event loop for all calls, because litellm keeps its clients for each loop."""
    with asyncio.Runner() as runner:
        yield runner
        runner.run(litellm.close_litellm_async_clients())


@pytest.fixture
def ask(litellm: Any, loop: asyncio.Runner, provider: str) -> Ask:
    """Ask the server through litellm, without retries; a stream comes back as the list of its chunks."""

    async def answer(server: ModelServer, said: dict[str, Any]) -> Any:
        base = server.anthropic_base if provider == "anthropic" else server.openai_base
        usual = {"model": MODELS[provider], "messages": [QUESTION], "api_key": "x", "max_retries": 0}
        reply = await litellm.acompletion(**{**usual, "api_base": base, **said})
        return [chunk async for chunk in reply] if said.get("stream") else reply

    return lambda server, **said: loop.run(answer(server, said))


def test_litellm_reads_text_usage_and_cost(litellm: Any, ask: Ask, provider: str) -> None:
    """Cached tokens are part of the prompt tokens in both formats, and cost what the price list says."""
    plan = ReplyPlan(text="안녕", input_tokens=100, cached_tokens=40, output_tokens=50, reasoning_tokens=20)
    with ModelServer([plan]) as server:
        reply = ask(server)

    usage = reply.usage
    fresh, cached, output = RATES[provider]
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("안녕", "stop")
    assert reply.choices[0].message.tool_calls is None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (100, 50, 150)
    assert usage.prompt_tokens_details.cached_tokens == 40
    assert usage.completion_tokens_details.reasoning_tokens == 20
    assert litellm.completion_cost(reply) == pytest.approx(60 * fresh + 40 * cached + 50 * output)


def test_litellm_reads_reasoning(ask: Ask, provider: str) -> None:
    """Reasoning arrives as ``reasoning_content``; Anthropic's signed blocks arrive beside it."""
    with ModelServer([ReplyPlan(text="3", reasoning="1 and 2 make 3")]) as server:
        message = ask(server).choices[0].message

    assert message.reasoning_content == "1 and 2 make 3"
    if provider == "anthropic":
        assert message.thinking_blocks[0]["signature"]


def test_litellm_carries_parallel_calls_and_their_results(ask: Ask, provider: str) -> None:
    """Two calls of one reply stay apart, and their results go back under their own ids."""
    calls = (("add", {"a": 1}), ("add", {"city": "서울"}))
    with ModelServer([ReplyPlan(calls=calls), ReplyPlan(text="done")]) as server:
        message = ask(server, tools=[ADD]).choices[0].message
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": f"result of {call.id}"}
            for call in message.tool_calls
        ]
        ask(server, tools=[ADD], messages=[QUESTION, message.model_dump(exclude_none=True), *results])
        body = server.requests[1].body
        sent = body["input" if provider == "responses" else "messages"]

    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [args for _, args in calls]
    ids = [call.id for call in message.tool_calls]
    assert len(set(ids)) == 2
    if provider == "openai":
        assert [(turn["role"], turn["tool_call_id"]) for turn in sent[2:]] == [("tool", one) for one in ids]
    elif provider == "responses":
        assert [item["call_id"] for item in sent if item["type"] == "function_call_output"] == ids
    else:
        assert [block["tool_use_id"] for block in sent[2]["content"]] == ids
        assert sent[1]["content"][1]["input"] == {"city": "서울"}


def test_malformed_arguments_reach_the_caller(ask: Ask, provider: str) -> None:
    """litellm does not parse arguments; whole Anthropic replies can only hold them wrapped."""
    with ModelServer([ReplyPlan(calls=(("add", '{"a": 1'),))]) as server:
        (call,) = ask(server, tools=[ADD]).choices[0].message.tool_calls

    wrapped = '{"INVALID_JSON": "{\\"a\\": 1"}'
    assert call.function.arguments == (wrapped if provider == "anthropic" else '{"a": 1')


def test_litellm_puts_a_stream_together(litellm: Any, ask: Ask) -> None:
    """Text, calls (malformed ones as they are), reasoning and usage survive in pieces."""
    calls = (("add", {"a": "a rather long argument"}), ("add", '{"b'))
    plan = ReplyPlan(text="let me see now", calls=calls, reasoning="hm", input_tokens=100, output_tokens=50)
    with ModelServer([plan]) as server:
        chunks = ask(server, tools=[ADD], stream=True, stream_options={"include_usage": True})
    whole = litellm.stream_chunk_builder(chunks)

    message = whole.choices[0].message
    assert message.content == "let me see now"
    assert message.reasoning_content == "hm"
    assert [call.function.arguments for call in message.tool_calls] == [
        '{"a": "a rather long argument"}',
        '{"b',
    ]
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (100, 50)


FAILURES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


@pytest.mark.parametrize("status", FAILURES)
def test_litellm_names_each_failure(litellm: Any, ask: Ask, status: int) -> None:
    """A failing status has a class and keeps its number, and with ``max_retries=0`` one request is sent."""
    kind = getattr(litellm, FAILURES[status])
    with ModelServer([ReplyPlan(status=status)]) as server, pytest.raises(kind) as caught:
        ask(server)

    assert type(caught.value) is kind
    assert caught.value.status_code == status
    assert len(server.requests) == 1


def test_an_overloaded_provider_is_named_differently_by_each_format(
    litellm: Any, ask: Ask, provider: str
) -> None:
    """litellm turns a 529 of Anthropic into a 500, and one in OpenAI's format into a bare APIError."""
    kind, status = {"anthropic": (litellm.InternalServerError, 500)}.get(provider, (litellm.APIError, 529))
    with ModelServer([ReplyPlan(status=529)]) as server, pytest.raises(kind) as caught:
        ask(server)

    assert (type(caught.value), caught.value.status_code) == (kind, status)
    assert provider != "anthropic" or "overloaded_error" in str(caught.value)
    assert caught.value.__context__.status_code == 529


def test_retry_after_is_reached_through_the_headers_litellm_keeps(litellm: Any, ask: Ask) -> None:
    """The value stands in ``litellm_response_headers``; those of ``response`` are empty in some versions."""
    plan = ReplyPlan(status=429, headers={"Retry-After": "0.2"})
    with ModelServer([plan]) as server, pytest.raises(litellm.RateLimitError) as caught:
        ask(server)

    assert caught.value.litellm_response_headers["retry-after"] == "0.2"


def test_a_conversation_that_is_too_long_has_a_class_of_its_own(
    litellm: Any, ask: Ask, provider: str
) -> None:
    """litellm tells it from other bad requests by the provider's words."""
    texts = {
        "openai": "This model's maximum context length is 128000 tokens. However, you sent 200000.",
        "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
    }
    plan = ReplyPlan(status=400, text=texts.get(provider, texts["openai"]))
    with ModelServer([plan]) as server, pytest.raises(litellm.ContextWindowExceededError) as caught:
        ask(server)

    assert isinstance(caught.value, litellm.BadRequestError)


def test_a_hanging_reply_ends_in_a_timeout(litellm: Any, ask: Ask) -> None:
    """``timeout`` bounds the wait; litellm calls its end a 408."""
    began = time.monotonic()
    with ModelServer([ReplyPlan(hang_s=30)]) as server, pytest.raises(litellm.Timeout) as caught:
        ask(server, timeout=0.3)

    assert caught.value.status_code == 408
    assert time.monotonic() - began < 15


def test_a_dropped_connection_looks_like_a_server_error(litellm: Any, ask: Ask) -> None:
    """No reply at all is an ``InternalServerError`` without headers."""
    with ModelServer([ReplyPlan(drop=True)]) as server, pytest.raises(litellm.InternalServerError) as caught:
        ask(server)

    assert caught.value.status_code == 500
    assert caught.value.litellm_response_headers is None
    assert len(server.requests) == 1


@pytest.mark.parametrize("suppressed", [True, False])
def test_litellm_is_silent_only_when_told(
    litellm: Any, ask: Ask, monkeypatch: pytest.MonkeyPatch, suppressed: bool
) -> None:
    """``suppress_debug_info`` keeps the advertisement for its issue tracker off stdout."""
    monkeypatch.setattr(litellm, "suppress_debug_info", suppressed)
    written = io.StringIO()
    caught = pytest.raises(litellm.InternalServerError)
    out, err = redirect_stdout(written), redirect_stderr(written)
    with ModelServer([ReplyPlan(status=500)]) as server, caught, out, err:
        ask(server)

    assert ("Give Feedback" in written.getvalue()) is not suppressed

"""What a direct chat makes of lines that break, replies that are none, and addresses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pytest_agenteval.chat.direct import http_pool
from pytest_agenteval.chat.direct.direct_chat import DirectChat
from pytest_agenteval.chat.direct.model_request import (
    address_problem,
    api_key_of,
    region_of,
)
from pytest_agenteval.chat.provider_failures import AttemptFailed
from pytest_agenteval.records.plan import Model
from tests.loopback.model_server import ModelServer, ReplyPlan
from tests.loopback.replies import RawReply

QUESTION = [{"role": "user", "content": "?"}]
HELLO = json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}}]}).encode()
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + str(len(HELLO)).encode()
) + b"\r\n\r\n"
STREAM = (
    b'data: {"choices": [{"index": 0, "delta": {"content": "hello"}}]}\n\n'
    b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


class Line:
    """A server that is told, for each connection, how many requests it answers before it closes."""

    def __init__(self, *answers: int) -> None:
        self._answers = list(answers)
        self.connections = 0
        self.requests = 0
        self.base = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read requests; answer so many, and close at the next one without a word."""
        answers = self._answers[min(self.connections, len(self._answers) - 1)]
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(it for it in head.lower().split(b"\r\n") if it.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                self.requests += 1
                if not answers:
                    return
                answers -= 1
                writer.write(HEAD + HELLO)
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def line(*answers: int) -> AsyncIterator[Line]:
    """Serve a line on this loop."""
    served = Line(*answers)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    served.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield served
    finally:
        await http_pool.close()
        server.close()


def chat_at(base: str, id: str = "openai/m", **params: Any) -> DirectChat:
    """Give a chat with a model at an address."""
    return DirectChat(Model("m", id, params={"api_base": base, **params}))


async def answers_of(chat: DirectChat, times: int = 1) -> list[str]:
    """Ask so many times, one after the other, and close what was opened."""
    try:
        return [(await chat.ask(QUESTION)).text for _ in range(times)]
    finally:
        await http_pool.close()


def test_a_connection_that_was_kept_and_closed_costs_no_attempt() -> None:
    """What was sent on it is sent again at once, on a new one."""

    async def asked() -> None:
        async with line(1, 2) as served:
            assert await answers_of(chat_at(served.base), 2) == ["hello"] * 2
            assert (served.connections, served.requests) == (2, 3)

    asyncio.run(asked())


def test_a_new_connection_that_is_closed_without_a_word_is_a_failed_attempt() -> None:
    """Nobody knows whether the request was read: the one retry layer decides."""

    async def asked() -> None:
        async with line(0) as served:
            with pytest.raises(AttemptFailed, match="connection: Server disconnected"):
                await answers_of(chat_at(served.base))
            assert served.connections == 1

    asyncio.run(asked())


def test_a_whole_stream_survives_its_line() -> None:
    """A server that closes behind the last event has said all: a reply that was paid for is kept."""
    cut = RawReply(STREAM, content_type="text/event-stream", streamed=True, ending="cut")
    with ModelServer([cut]) as server:
        assert asyncio.run(answers_of(chat_at(server.openai_base, stream=True))) == ["hello"]
        assert len(server.requests) == 1


@pytest.mark.parametrize("end_of_line", [b"\r", b"\r\n"], ids=["CR", "CRLF"])
def test_a_whole_stream_is_not_waited_behind(end_of_line: bytes) -> None:
    """A server that keeps the line open behind its end is left, however its lines end."""
    events = STREAM.replace(b"\n", end_of_line)
    standing = RawReply(events, content_type="text/event-stream", streamed=True, ending="silence")
    with ModelServer([standing]) as server:
        chat = chat_at(server.openai_base, stream=True, request_seconds=20)
        assert asyncio.run(answers_of(chat)) == ["hello"]


def test_a_stream_that_is_cut_before_its_end_is_a_failed_attempt() -> None:
    """Half a reply would be graded as the model's answer."""
    half = RawReply(STREAM[:70], content_type="text/event-stream", streamed=True, ending="cut")
    with ModelServer([half]) as server, pytest.raises(AttemptFailed):
        asyncio.run(answers_of(chat_at(server.openai_base, stream=True)))


def test_what_half_a_reply_took_was_paid_for() -> None:
    """The counts that came before the stream ended belong to the failed attempt."""
    counts = b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}}\n\n'
    half = RawReply(
        STREAM.split(b"\n\n")[0] + b"\n\n" + counts, content_type="text/event-stream", streamed=True
    )
    with ModelServer([half]) as server, pytest.raises(AttemptFailed) as failed:
        asyncio.run(answers_of(chat_at(server.openai_base, stream=True)))
    assert failed.value.usage.tokens == 12


@pytest.mark.parametrize("choice", [{}, {"message": None}, {"message": "hi"}, {"message": {"content": 42}}])
def test_a_reply_without_a_message_is_no_empty_answer(choice: Mapping[str, Any]) -> None:
    """A broken server makes errors, which are in no average; it does not lower a model's score."""
    broken = RawReply(json.dumps({"choices": [choice]}).encode())
    said = pytest.raises(AttemptFailed, match="no usable reply: the reply holds no message")
    with ModelServer([broken]) as server, said as caught:
        asyncio.run(answers_of(chat_at(server.openai_base)))
    assert caught.value.retryable


def test_a_reply_with_long_headers_is_read() -> None:
    """Gateways write policies and traces into them."""
    with ModelServer([ReplyPlan(text="hello", headers={"X-Policy": "p" * 20_000})]) as server:
        assert asyncio.run(answers_of(chat_at(server.openai_base))) == ["hello"]


@pytest.mark.parametrize("id", ["hosted_vllm/gpt-4o", "hosted_vllm/acme/gpt-5-distill"])
def test_names_on_a_server_of_ones_own_say_nothing(id: str) -> None:
    """Neither another provider's price nor what its family refuses holds for a model that is called alike."""
    params = {"temperature": 0.3, "top_p": 0.9, "max_tokens": 50}
    with ModelServer([ReplyPlan(text="hello")]) as server:

        async def reply() -> Any:
            try:
                return await chat_at(server.openai_base, id, **params).ask(QUESTION)
            finally:
                await http_pool.close()

        usage = asyncio.run(reply()).usage
        body = server.requests[0].body
    assert {name: body.get(name) for name in params} == params
    assert usage.tokens > 0
    assert usage.cost_usd is None


def test_the_key_of_hosted_vllm_is_for_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address in a model's table gets a key only where ``api_key_env`` names one."""
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", "hv-key")
    assert api_key_of(Model("m", "hosted_vllm/m")) == "hv-key"
    assert api_key_of(Model("m", "hosted_vllm/m", params={"api_base": "http://127.0.0.1:9"})) == ""


def test_thoughts_go_back_with_the_calls_they_led_to_where_ids_repeat() -> None:
    """Some servers count calls from 0 in each turn: each turn keeps its own thoughts."""

    def thinking(number: int) -> RawReply:
        call = {"id": "c0", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        told = {"role": "assistant", "content": None, "tool_calls": [call]}
        message = {**told, "reasoning_details": [{"text": f"thought {number}"}]}
        return RawReply(json.dumps({"choices": [{"message": message}]}).encode())

    async def talk(base: str) -> None:
        chat, messages = chat_at(base), list[dict[str, Any]](QUESTION)
        for _ in range(3):
            reply = await chat.ask(messages)
            result = {"role": "tool", "tool_call_id": reply.calls[0].id, "content": "3"}
            messages += [reply.message(), result]
        await http_pool.close()

    with ModelServer([thinking(number) for number in range(3)]) as server:
        asyncio.run(talk(server.openai_base))
        sent = server.requests[2].body["messages"]
    thoughts = [it["reasoning_details"][0]["text"] for it in sent if it["role"] == "assistant"]
    assert thoughts == ["thought 0", "thought 1"]


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ("127.0.0.1:8000/v1", "begins with http:// or https://"),
        ("unix:///tmp/x", "begins with http:// or https://"),
        ("http:///v1", "begins with http:// or https:// and a host"),
        ("http://127.0.0.1:99999/v1", "is no address"),
        ("http://[::1/v1", "is no address"),
        ("http://a..b/v1", "is no address"),
        ("http://joe:pw@127.0.0.1/v1", "contains a user"),
        ("http://joe:pw@127.0.0.1:99999/v1", "127.0.0.1:99999/v1 is no address"),
        ("joe:pw@127.0.0.1/v1", "begins with http:// or https://"),
        ("http://127.0.0.1/v1?version=7", "ends with its path"),
        ("http://127.0.0.1/v1?key=pw", "ends with its path"),
        ("http://127.0.0.1:8000/v1/ ", ""),
    ],
)
def test_an_address_that_cannot_be_asked_is_told(base: str, said: str) -> None:
    """In words, and without the password that may stand in it."""
    problem = address_problem(Model("m", "openai/m", params={"api_base": base}))
    assert said in problem
    assert bool(said) == bool(problem)
    assert "pw" not in problem


def test_a_model_without_address_or_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each says what to set."""
    monkeypatch.delenv("HOSTED_VLLM_API_BASE", raising=False)
    assert "set api_base in its table, or HOSTED_VLLM_API_BASE" in address_problem(
        Model("m", "hosted_vllm/m")
    )
    assert "names no model" in address_problem(Model("m", "openai/"))


def test_an_address_that_names_the_whole_endpoint_is_asked_as_it_is() -> None:
    """The path of the format is not put behind it a second time."""
    with ModelServer([ReplyPlan(text="hello")]) as server:
        assert asyncio.run(answers_of(chat_at(f"{server.openai_base}/chat/completions"))) == ["hello"]


@pytest.mark.parametrize(
    ("host", "region"),
    [("eu.api.openai.com", "eu"), ("api.openai.com", ""), ("a.eu.api.openai.com", ""), ("127.0.0.1", "")],
)
def test_a_region_of_openai_stands_before_its_host(host: str, region: str) -> None:
    """Prices are higher in some regions; no other address has one."""
    assert region_of(host) == region


@pytest.mark.parametrize(
    ("id", "base", "is_own"),
    [
        ("openai/m", "https://api.openai.com/v1", True),
        ("openai/m", "https://eu.api.openai.com/v1", True),
        ("openai/m", "https://myapi.openai.com/v1", False),
        ("openai/m", "http://127.0.0.1:8000/v1", False),
        ("hosted_vllm/m", "http://127.0.0.1:8000/v1", False),
    ],
)
def test_only_the_providers_own_host_is_its_own(id: str, base: str, is_own: bool) -> None:
    """What its API refuses holds there, and the user's organization is named nowhere else."""
    assert chat_at(base, id).model_ask(QUESTION).own_host is is_own

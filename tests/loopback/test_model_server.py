"""The loopback server speaks both wire formats to plain HTTP clients."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from pytest_agenteval.cassettes.wire.openai_responses import join, read_reply
from pytest_agenteval.records.replies import finish_of

from .model_server import ModelServer, RawReply, ReplyPlan

PROJECT = Path(__file__).parents[2]
QUESTION = {"role": "user", "content": "What is 1 + 2?"}


def post(base: str, path: str, body: Any) -> tuple[int, dict[str, str], str]:
    """Send one request with urllib; give the status, the headers in lower case, and the text."""
    request = urllib.request.Request(base + path, json.dumps(body).encode(), method="POST")
    try:
        reply = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        reply = error
    with reply:
        headers = {name.lower(): value for name, value in reply.headers.items()}
        return reply.status, headers, reply.read().decode()


def get(address: str) -> Any:
    """Fetch JSON."""
    with urllib.request.urlopen(address, timeout=60) as reply:
        return json.load(reply)


def test_replies_are_used_in_order_and_the_last_one_repeats() -> None:
    """The n-th request gets the n-th reply, over one kept-alive connection, and is recorded."""
    with ModelServer([ReplyPlan(text="one"), ReplyPlan(text="two")]) as server:
        client = http.client.HTTPConnection(server.anthropic_base.removeprefix("http://"), timeout=60)
        texts = []
        for turn in range(3):
            client.request("POST", "/v1/chat/completions", json.dumps({"turn": turn}), {"X-Turn": str(turn)})
            texts.append(json.load(client.getresponse())["choices"][0]["message"]["content"])
        client.close()

    assert texts == ["one", "two", "two"]
    assert [request.body for request in server.requests] == [{"turn": 0}, {"turn": 1}, {"turn": 2}]
    assert [request.headers["x-turn"] for request in server.requests] == ["0", "1", "2"]


def test_a_callable_sees_the_request_and_its_number() -> None:
    """A callable script gets body and number; when it raises, the client reads the exception."""

    def choose(request: Any, n: int) -> ReplyPlan:
        return ReplyPlan(text=f"{n}: {request['model']}")

    with ModelServer(choose) as server:
        status, _, body = post(server.openai_base, "/chat/completions", {"model": "m"})
        broken_status, _, broken = post(server.openai_base, "/chat/completions", {})

    assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "0: m")
    assert broken_status == 500
    assert "KeyError('model')" in broken


def test_errors_have_the_body_of_their_wire_format() -> None:
    """A failing status carries the documented body and the headers of the plan."""
    with ModelServer([ReplyPlan(status=429, headers={"Retry-After": "0.2"})]) as server:
        _, _, openai = post(server.openai_base, "/chat/completions", {})
        status, headers, anthropic = post(server.anthropic_base, "/v1/messages", {})

    assert json.loads(openai)["error"].keys() == {"message", "type", "param", "code"}
    assert json.loads(openai)["error"]["code"] == "rate_limit_exceeded"
    assert (status, headers["retry-after"]) == (429, "0.2")
    assert json.loads(anthropic)["type"] == "error"
    assert json.loads(anthropic)["error"]["type"] == "rate_limit_error"


def test_streams_begin_and_end_as_documented() -> None:
    """An OpenAI stream ends with ``[DONE]``; Anthropic's runs from message_start to message_stop."""
    with ModelServer([ReplyPlan(text="a text of several pieces")]) as server:
        _, headers, openai = post(server.openai_base, "/chat/completions", {"stream": True})
        _, _, anthropic = post(server.anthropic_base, "/v1/messages", {"stream": True})

    names = [line.removeprefix("event: ") for line in anthropic.splitlines() if line.startswith("event: ")]
    assert headers["content-type"].startswith("text/event-stream")
    assert openai.endswith("data: [DONE]\n\n")
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_a_response_says_the_same_streamed_and_whole() -> None:
    """OpenAI's responses: thoughts, calls and counts are those of the plan, and each event has its number."""
    plan = ReplyPlan(
        text="a text of several pieces",
        reasoning="well, well",
        calls=(("add", {"a": 1}), ("add", "{")),
        input_tokens=90,
        cached_tokens=40,
        cache_writes=20,
        reasoning_tokens=3,
    )
    with ModelServer([plan]) as server:
        _, _, whole = post(server.openai_base, "/responses", {"model": "m"})
    with ModelServer([plan]) as server:
        _, headers, streamed = post(server.openai_base, "/responses", {"model": "m", "stream": True})

    events = [json.loads(line.removeprefix("data: ")) for line in streamed.splitlines() if "data: " in line]
    assert headers["content-type"].startswith("text/event-stream")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    read = read_reply(json.loads(whole))
    assert read == read_reply(join(events))
    assert read_reply(join(events[:-1])).content == plan.text
    assert (read.content, read.reasoning) == (plan.text, plan.reasoning)
    assert [(call.name, call.arguments) for call in read.calls] == [("add", '{"a": 1}'), ("add", "{")]
    assert (read.usage.cached_tokens, read.usage.reasoning_tokens) == (40, 3)
    assert read.priced_apart.cache_writes == 20


@pytest.mark.parametrize(
    ("plan", "finish", "refused"),
    [
        (ReplyPlan(text="on and", finish_reason="length"), "length", False),
        (ReplyPlan(text="", finish_reason="content_filter"), "content_filter", False),
        (ReplyPlan(refusal="No, thank you."), "stop", True),
    ],
)
def test_a_response_says_why_it_is_none(plan: ReplyPlan, finish: str, refused: bool) -> None:
    """A reply that is cut names the reason, and a refusal is a part of its own."""
    with ModelServer([plan]) as server:
        _, _, whole = post(server.openai_base, "/responses", {})

    read = read_reply(json.loads(whole))
    assert (finish_of(read.finish, calls=False), read.refused) == (finish, refused)
    assert read.content == (plan.text or plan.refusal)


@pytest.mark.parametrize("ending", ["whole", "cut", "silence"])
def test_a_raw_reply_ends_as_it_is_told(ending: Any) -> None:
    """What follows the body is its proper end, the end of the connection, or nothing at all."""
    raw = RawReply(b"data: 1\n\n", content_type="text/event-stream", streamed=True, ending=ending)
    with ModelServer([raw]) as server:
        client = http.client.HTTPConnection(server.anthropic_base.removeprefix("http://"), timeout=0.3)
        client.request("POST", "/v1/messages", "{}")
        stream = client.getresponse()
        assert stream.readline() == b"data: 1\n"
        if ending == "whole":
            assert stream.read() == b"\n"
        else:
            with pytest.raises(http.client.IncompleteRead if ending == "cut" else TimeoutError):
                stream.read()
        client.close()


def test_hundreds_of_clients_wait_at_the_same_time() -> None:
    """Every client waits out the latency beside the others."""

    async def one(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        status = await reader.readline()
        writer.close()
        return status

    async def everyone(port: int) -> list[bytes]:
        return await asyncio.gather(*(one(port) for _ in range(300)))

    began = time.monotonic()
    with ModelServer(latency_s=0.2) as server:
        replies = asyncio.run(everyone(int(server.anthropic_base.rpartition(":")[2])))

    assert set(replies) == {b"HTTP/1.1 200 OK\r\n"}
    assert server.peak_in_flight > 100
    assert 0.2 <= time.monotonic() - began < 20  # one after the other: 60


def test_a_client_that_gives_up_is_no_longer_in_flight() -> None:
    """A hanging request leaves the count when its client leaves."""
    with ModelServer([ReplyPlan(hang_s=30)]) as server:
        client = http.client.HTTPConnection(server.anthropic_base.removeprefix("http://"), timeout=0.1)
        client.request("POST", "/v1/messages", "{}")
        with pytest.raises(TimeoutError):
            client.getresponse()
        client.close()
        deadline = time.monotonic() + 2
        while get(f"{server.anthropic_base}/stats")["in_flight"] and time.monotonic() < deadline:
            time.sleep(0.01)

        assert get(f"{server.anthropic_base}/stats")["in_flight"] == 0
    assert server.peak_in_flight == 1


def test_the_program_prints_its_address_and_counts() -> None:
    """A benchmark can run the server in a process of its own."""
    command = [sys.executable, "-m", "tests.loopback.model_server", "--tool", "add", "--tool-args", "[1]"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            base = process.stdout.readline().removeprefix("listening ").strip()
            _, _, called = post(base, "/v1/chat/completions", {"messages": [QUESTION]})
            _, _, body = post(base, "/v1/chat/completions", {"messages": [{"role": "tool"}]})
            counted = get(f"{base}/stats")
            get(f"{base}/reset")
            again = get(f"{base}/stats")
        finally:
            process.terminate()

    assert json.loads(called)["choices"][0]["finish_reason"] == "tool_calls"
    assert json.loads(body)["choices"][0]["finish_reason"] == "stop"
    assert (counted["requests"], again["requests"]) == (2, 0)
